//! System calls without a safe wrapper in another crate, one function each: those that start and enter a new process.

#![allow(unsafe_code, reason = "the kernel's own interface")]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// The two returns of a clone: in the child, and in the parent with the child's pid and pidfd.
pub enum Cloned {
    Child,
    Parent { pid: i32, pidfd: OwnedFd },
}

/// Clones this process into new namespaces and, if `group` is given, into the cgroup v2 directory with that descriptor.
pub fn clone_process(namespaces: libc::c_int, group: Option<RawFd>) -> io::Result<Cloned> {
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
    // Create the child process (clone3).
    // SAFETY: single-threaded: the callers (spawner, keeper, unpacker) have no other thread, so the child may run any code;
    // `arguments` outlives the call, and `pidfd` is valid for the kernel's write.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<CloneArguments>()) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Cloned::Child),
        pid => {
            // SAFETY: the kernel has just opened this descriptor, and no other object owns it.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            Ok(Cloned::Parent { pid: i32::try_from(pid).unwrap_or(-1), pidfd })
        }
    }
}

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

/// Exits at once, without destructors: in a forked child they would act on copies of the parent's objects.
pub fn exit_now(code: i32) -> ! {
    // Exit without cleanup (_exit).
    // SAFETY: takes a plain number and never returns.
    unsafe { libc::_exit(code) }
}

/// Sets the real, effective and saved ids of this process, and drops supplementary groups.
pub fn set_ids(uid: u32, gid: u32) -> io::Result<()> {
    // Drop supplementary groups (setgroups). EPERM: the user namespace denies setgroups, which is fine.
    // SAFETY: the list is empty, so the pointer is not read.
    let groups = unsafe { libc::setgroups(0, std::ptr::null()) };
    if groups != 0 && io::Error::last_os_error().raw_os_error() != Some(libc::EPERM) {
        return Err(io::Error::last_os_error());
    }
    // Set the group ids (setresgid), before the user ids, which may take away the right to.
    // SAFETY: plain numbers; single-threaded, so the change applies to the whole process.
    if unsafe { libc::setresgid(gid, gid, gid) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // Set the user ids (setresuid).
    // SAFETY: plain numbers; single-threaded, so the change applies to the whole process.
    if unsafe { libc::setresuid(uid, uid, uid) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Closes every descriptor from this one on.
pub fn close_from(first: u32) -> io::Result<()> {
    // Close all descriptors from `first` on (close_range).
    // SAFETY: called between fork and exec, or at the start of a process: no live object uses the closed descriptors.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) };
    if closed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
