//! Capabilities that the workload keeps inside its own namespaces, and those that the keeper keeps.

use rustix::io::Errno;
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, capabilities, capabilities_secure_bits,
    capability_is_in_bounding_set, clear_ambient_capability_set, remove_capability_from_bounding_set,
    set_capabilities, set_capabilities_secure_bits,
};

/// Capabilities of root inside; other users inside have none. They apply only to files, processes and ports of the
/// sandbox, since the user namespace owns nothing else.
///
/// | kept | because |
/// |---|---|
/// | `chown`, `fowner`, `fsetid` | package managers and `tar` give files to other users and set their modes |
/// | `dac_override` | root expects to open any file; what it must not see is not mounted |
/// | `setuid`, `setgid` | apt, su and every daemon switch to a user of their own |
/// | `kill` | root kills processes of those users; process 1 ignores signals from inside |
/// | `net_bind_service` | a web server under test listens on port 80 of its own network namespace |
/// | `sys_chroot` | apk and pacman run their scripts by `chroot`, even into `/` |
///
/// | left out, though Docker keeps it | because |
/// |---|---|
/// | `net_raw` | there is no network for raw packets; packet sockets expose kernel bugs |
/// | `mknod` | the kernel refuses devices in a user namespace; FIFOs need no capability |
/// | `audit_write` | nothing inside may write to the host's audit log |
/// | `setpcap` | no agent workload changes capability sets; they are empty or final |
/// | `setfcap` | file capabilities grant nothing under no_new_privs; apt falls back (some rpm packages do not) |
///
/// The rest, `sys_admin` and `net_admin` above all, would allow mounts, firewalls, tracing or control of the machine.
pub const WORKLOAD: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::SYS_CHROOT);

/// Capabilities that the keeper needs after setup: to serve files as any user, to start executions as any user, and to
/// signal all of them; `sys_admin` to give each execution its own cgroup namespace, the only use of it that its seccomp
/// program allows. It no longer mounts, traces or configures anything. It also keeps the workload's capabilities,
/// because under no_new_privs an exec cannot gain what the parent does not have.
pub(super) const KEEPER: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SYS_ADMIN);

/// To read the cgroup namespace of processes, where executions have no cgroup of their own.
pub(super) const READ_NAMESPACES: CapabilitySet = CapabilitySet::SYS_PTRACE;

/// Ambient capabilities cannot be raised: they would survive the switch from root to a user. Root keeps its usual
/// meaning (no `NO_ROOT`), within the bounding set.
const SECURE_BITS: CapabilitiesSecureBits =
    CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE.union(CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED);

/// Removes all but `kept` from the bounding set, which limits what root gets at every exec. Skips capabilities that are
/// already removed, so that a child that is no longer root, and may not drop any, succeeds.
pub(super) fn drop_from_bounding_set(kept: CapabilitySet) -> Result<(), Errno> {
    for bit in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        // Ask whether the capability is in the bounding set (prctl PR_CAPBSET_READ), and drop it (PR_CAPBSET_DROP).
        match capability_is_in_bounding_set(capability) {
            Ok(true) if !kept.contains(capability) => remove_capability_from_bounding_set(capability)?,
            Ok(_) => {}
            // EINVAL: past the last capability of this kernel.
            Err(Errno::INVAL) => return Ok(()),
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Empties the ambient set and locks it empty.
pub(super) fn forbid_ambient() -> Result<(), Errno> {
    #[cfg(feature = "weakened")]
    if crate::weakened::disabled().ambient_capabilities_allowed {
        return Ok(());
    }
    // Empty the ambient set (prctl PR_CAP_AMBIENT_CLEAR_ALL).
    clear_ambient_capability_set()?;
    // Lock it empty (prctl PR_SET_SECUREBITS).
    let bits = capabilities_secure_bits()?;
    if bits.contains(SECURE_BITS) { Ok(()) } else { set_capabilities_secure_bits(bits | SECURE_BITS) }
}

/// Drops all capabilities except `kept`. The inheritable set is emptied: a file with inheritable capabilities would
/// give them back (CVE-2022-24769).
pub(super) fn drop_all_but(kept: CapabilitySet) -> Result<(), Errno> {
    let held = capabilities(None)?.permitted & kept;
    let sets = CapabilitySets { effective: held, permitted: held, inheritable: CapabilitySet::empty() };
    #[cfg(feature = "weakened")]
    if crate::weakened::disabled().inheritable_capabilities_kept {
        return set_capabilities(None, CapabilitySets { inheritable: held & WORKLOAD, ..sets });
    }
    // Set the effective, permitted and inheritable sets (capset).
    set_capabilities(None, sets)
}
