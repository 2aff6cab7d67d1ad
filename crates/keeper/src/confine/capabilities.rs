//! Which of root's powers the workload keeps inside its own namespaces, and which the keeper keeps.

use rustix::io::Errno;
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, capabilities, capabilities_secure_bits,
    capability_is_in_bounding_set, clear_ambient_capability_set, remove_capability_from_bounding_set,
    set_capabilities, set_capabilities_secure_bits,
};

/// What root inside may do; any other user inside may do none of it. All of it concerns only files,
/// processes and ports of the sandbox, since the user namespace owns nothing else.
///
/// | kept | because |
/// |---|---|
/// | `chown`, `fowner`, `fsetid` | package managers and `tar` give files to other users and set their modes |
/// | `dac_override` | root expects to open any file; what it must not see is not mounted |
/// | `setuid`, `setgid` | apt, su and every daemon step down to a user of their own |
/// | `kill` | root ends what those users started; process 1 is deaf to signals from inside |
/// | `net_bind_service` | a web server under test listens on port 80 of its own network namespace |
/// | `sys_chroot` | apk and pacman run their scripts by `chroot`, even into `/` |
///
/// | left out, though Docker keeps it | because |
/// |---|---|
/// | `net_raw` | there is no wire for raw packets; packet sockets are a door to kernel bugs |
/// | `mknod` | the kernel refuses devices in a user namespace; FIFOs need no capability |
/// | `audit_write` | nothing inside may write to the host's audit log |
/// | `setpcap` | nothing an agent runs shapes capabilities; the sets are empty or final |
/// | `setfcap` | file capabilities grant nothing under no_new_privs; apt falls back (some rpm packages do not) |
///
/// The rest, `sys_admin` and `net_admin` above all, opens mounts, firewalls, tracing or the machine.
pub const WORKLOAD: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::SYS_CHROOT);

/// What the keeper still needs once the sandbox stands: to serve files as any user, to start executions as any
/// user, and to signal all of them; `sys_admin` to give each execution its own view of control groups, the only use
/// of it that its seccomp program lets through, and `sys_ptrace` to read by that view whose a process is. It
/// mounts, traces and configures nothing any more. It also holds on to what the workload gets, because under
/// no_new_privs nobody gets at exec what the parent has not.
pub(super) const KEEPER: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SYS_ADMIN)
    .union(CapabilitySet::SYS_PTRACE);

/// Nobody raises an ambient capability, which would outlive the step down from root. Root itself keeps its
/// usual meaning (no `NO_ROOT`), within the bounding set.
const SECURE_BITS: CapabilitiesSecureBits =
    CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE.union(CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED);

/// Takes all but `kept` out of the bounding set, which is what root gets at every exec. What is out already is
/// left alone, so that a child that has stepped down from root, and may drop nothing, passes.
pub(super) fn bound(kept: CapabilitySet) -> Result<(), Errno> {
    for bit in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        match capability_is_in_bounding_set(capability) {
            Ok(true) if !kept.contains(capability) => remove_capability_from_bounding_set(capability)?,
            Ok(_) => {}
            // Past the last one that this kernel knows.
            Err(Errno::INVAL) => return Ok(()),
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Empties the ambient set and keeps it empty.
pub(super) fn forbid_ambient() -> Result<(), Errno> {
    #[cfg(feature = "weakened")]
    if crate::weakness::has(&crate::weakness::Weakness::AmbientCapabilitiesAllowed) {
        return Ok(());
    }
    clear_ambient_capability_set()?;
    let bits = capabilities_secure_bits()?;
    if bits.contains(SECURE_BITS) { Ok(()) } else { set_capabilities_secure_bits(bits | SECURE_BITS) }
}

/// Keeps `kept` of what the process has. The inheritable set is empty: what is in it would come back by
/// files that name it (CVE-2022-24769).
pub(super) fn keep(kept: CapabilitySet) -> Result<(), Errno> {
    let held = capabilities(None)?.permitted & kept;
    let sets = CapabilitySets { effective: held, permitted: held, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets)
}
