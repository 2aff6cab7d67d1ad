//! System calls that no safe crate offers. The only unsafe code of this crate.

#![allow(unsafe_code, reason = "the kernel's own interface")]

use std::ffi::{CString, c_char};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// The child's side of a clone, or the parent's with the child's process id and handle.
pub(crate) enum Cloned {
    Child,
    Parent { pid: i32, pidfd: OwnedFd },
}

/// Makes a process in fresh namespaces, in the v2 control group that `group` is a directory of.
pub(crate) fn clone_into(namespaces: libc::c_int, group: Option<RawFd>) -> io::Result<Cloned> {
    let mut pidfd: RawFd = -1;
    let mut flags = u64::from(namespaces.unsigned_abs()) | u64::from(libc::CLONE_PIDFD.unsigned_abs());
    if group.is_some() {
        flags |= CLONE_INTO_CGROUP;
    }
    let arguments = CloneArguments {
        flags,
        pidfd: (&raw mut pidfd) as u64,
        exit_signal: u64::from(libc::SIGCHLD.unsigned_abs()),
        cgroup: group.map_or(0, |group| u64::from(group.unsigned_abs())),
        ..CloneArguments::default()
    };
    // SAFETY: single-threaded: the nursery and the keeper have no other thread, so the child may run any code;
    // `arguments` outlives the call and `pidfd` is where the kernel may write.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<CloneArguments>()) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Cloned::Child),
        pid => {
            // SAFETY: the kernel has just opened it for us, and nobody else knows it.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            Ok(Cloned::Parent { pid: i32::try_from(pid).unwrap_or(-1), pidfd })
        }
    }
}

/// Namespaces that root makes from now on belong to this user, and what the kernel counts for each user counts for
/// it. Rights and the way files are opened stay root's. Without effect for whoever is not root.
pub(crate) fn make_namespaces_for(uid: u32) -> io::Result<()> {
    // SAFETY: asks for a number.
    if unsafe { libc::getuid() } != 0 {
        return Ok(());
    }
    // SAFETY: plain numbers: capabilities stay when users change.
    if unsafe { libc::prctl(libc::PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: plain numbers; single-threaded, so that it holds for the whole process.
    if unsafe { libc::setresuid(u32::MAX, uid, u32::MAX) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a plain number; it cannot fail for root.
    unsafe { libc::setfsuid(0) };
    Ok(())
}

const SECBIT_NO_SETUID_FIXUP: libc::c_ulong = 1 << 2;

const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

#[repr(C)]
#[derive(Default)]
struct CloneArguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// Becomes another program. Comes back only with the reason why not.
pub(crate) fn become_program(program: &CString, argv: &[CString], env: &[CString]) -> io::Error {
    let argv = pointers(argv);
    let env = pointers(env);
    // SAFETY: both lists are of NUL-terminated strings that outlive the call, and end in a null pointer.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error()
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
}

/// Ends this process at once: no destructor of the parent's copy may run in a child.
pub(crate) fn vanish(code: i32) -> ! {
    // SAFETY: ends the process; nothing runs after it.
    unsafe { libc::_exit(code) }
}

/// The ids of this process from now on, real, effective and saved.
pub(crate) fn become_user(uid: u32, gid: u32) -> io::Result<()> {
    // SAFETY: an empty list of groups.
    let groups = unsafe { libc::setgroups(0, std::ptr::null()) };
    if groups != 0 && io::Error::last_os_error().raw_os_error() != Some(libc::EPERM) {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: plain numbers; single-threaded, so that it holds for the whole process.
    if unsafe { libc::setresgid(gid, gid, gid) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above.
    if unsafe { libc::setresuid(uid, uid, uid) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// A descriptor that becomes readable when one of these signals is pending. They no longer interrupt.
pub(crate) fn signals_as_descriptor(signals: &[libc::c_int]) -> io::Result<OwnedFd> {
    // SAFETY: an all-zero set is a valid set.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    for signal in signals {
        // SAFETY: `set` is a valid set.
        unsafe { libc::sigaddset(&raw mut set, *signal) };
    }
    // SAFETY: `set` is a valid set, and the old one is not asked for.
    if unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `set` is a valid set; a new descriptor is made.
    let descriptor = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// What programs expect: no signal blocked, each with its default action.
pub(crate) fn reset_signals() {
    // SAFETY: an all-zero set is a valid, empty set.
    let set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a valid set.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut()) };
    for signal in 1..32 {
        // SAFETY: restores a default action; the two that cannot be changed are refused harmlessly.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Closes every descriptor from this one on.
pub(crate) fn close_from(first: u32) -> io::Result<()> {
    // SAFETY: called between fork and exec, or at the start of a process: nobody uses what is closed.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) };
    if closed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// In a child: closes every descriptor but the first three and this one.
pub(crate) fn close_all_but(kept: &impl AsRawFd) -> io::Result<()> {
    #[cfg(feature = "weakened")]
    if crate::weakness::keeps_descriptors() {
        return Ok(());
    }
    let kept = kept.as_raw_fd().unsigned_abs();
    if kept > 3 {
        // SAFETY: called between fork and exec: nobody uses what is closed.
        let closed = unsafe { libc::syscall(libc::SYS_close_range, 3, kept - 1, 0) };
        if closed != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    close_from(kept + 1)
}

/// Takes over a descriptor that this process was started with.
pub(crate) fn inherited(descriptor: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: only asks whether it is open.
    if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: open, and by agreement with the parent ours alone.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Makes `from` also known under the number `to`, open across exec.
pub(crate) fn duplicate_as(from: &impl AsRawFd, to: RawFd) -> io::Result<()> {
    // SAFETY: both are numbers; whatever `to` was is closed, which is what is wanted.
    let done = unsafe { libc::dup2(from.as_raw_fd(), to) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sets the loopback device of this network namespace going.
pub(crate) fn raise_loopback() -> io::Result<()> {
    // SAFETY: makes a new descriptor.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened it for us.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    // SAFETY: all-zero is a valid request.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l'.cast_signed();
    request.ifr_name[1] = b'o'.cast_signed();
    request.ifr_ifru.ifru_flags = i16::try_from(libc::IFF_UP | libc::IFF_RUNNING).unwrap_or(0);
    // SAFETY: `request` is a valid request that outlives the call.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Children that end are forgotten by the kernel at once: nobody waits for them.
pub(crate) fn forget_children() {
    // SAFETY: sets a plain action.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
}

/// From now on the control groups of this process look like the root of all groups to it.
pub(crate) fn leave_groups_behind() -> io::Result<()> {
    // SAFETY: single-threaded, and no memory or descriptor is concerned.
    let done = unsafe { libc::unshare(libc::CLONE_NEWCGROUP) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
