//! Raw system calls without wrappers, as hostile code makes them. The only unsafe code here.

#![allow(unsafe_code, reason = "hostile code makes raw system calls")]

use std::ffi::CString;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use libc::{c_int, c_long};

/// A system call with up to six arguments. The error is an errno.
pub(crate) fn call(number: c_long, arguments: &[usize]) -> Result<usize, i32> {
    let argument = |index: usize| arguments.get(index).copied().unwrap_or(0);
    // SAFETY: the arguments are numbers, null, or point to memory that lives as long as the caller's.
    let answer = unsafe {
        libc::syscall(number, argument(0), argument(1), argument(2), argument(3), argument(4), argument(5))
    };
    usize::try_from(answer).map_err(|_| last_errno())
}

fn last_errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL)
}

/// Runs `act` in a child and returns its exit code or signal.
pub(crate) fn in_child(act: impl FnOnce() -> i32) -> Result<Ended, i32> {
    let pid = fork(act)?;
    wait_for(pid)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Code(i32),
    Signal(i32),
}

pub(crate) fn fork(act: impl FnOnce() -> i32) -> Result<usize, i32> {
    // SAFETY: this program has no other thread at this point, so the child may run any code.
    match unsafe { libc::fork() } {
        -1 => Err(last_errno()),
        0 => exit_now(act()),
        pid => Ok(usize::try_from(pid).unwrap_or(0)),
    }
}

pub(crate) fn wait_for(pid: usize) -> Result<Ended, i32> {
    let mut status: c_int = 0;
    call(libc::SYS_wait4, &[pid, (&raw mut status).addr()])?;
    Ok(if libc::WIFSIGNALED(status) {
        Ended::Signal(libc::WTERMSIG(status))
    } else {
        Ended::Code(libc::WEXITSTATUS(status))
    })
}

pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: ends the process; nothing runs after it.
    unsafe { libc::_exit(code) }
}

/// `getpid` by the i386 system call ABI.
#[cfg(target_arch = "x86_64")]
pub(crate) fn i386_getpid() -> i64 {
    let answer: i64;
    // SAFETY: getpid takes no argument and touches no memory; the clobbered registers are named.
    unsafe {
        std::arch::asm!("int 0x80", inlateout("rax") 20_i64 => answer, out("r8") _, out("r9") _, out("r10") _, out("r11") _);
    }
    answer
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn i386_getpid() -> i64 {
    -i64::from(libc::ENOSYS)
}

/// A C string. Text with a NUL becomes empty.
pub(crate) fn text(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}

/// Takes ownership of a descriptor that a call returned.
pub(crate) fn owned(descriptor: usize) -> OwnedFd {
    let descriptor = RawFd::try_from(descriptor).unwrap_or(-1);
    // SAFETY: the kernel has just opened it for us, and no other code owns it.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

/// Ignores or restores a signal.
pub(crate) fn ignore(signal: c_int) {
    // SAFETY: sets a plain action.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// The first descriptor that comes over a unix socket.
pub(crate) fn receive_descriptor(socket: &impl std::os::fd::AsRawFd) -> Result<OwnedFd, i32> {
    let (mut byte, mut control) = ([0_u8; 1], [0_u64; 8]);
    let mut piece = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    // SAFETY: all-zero is a valid message header.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    // SAFETY: the header points to memory that outlives the call.
    if unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) } < 0 {
        return Err(last_errno());
    }
    if message.msg_controllen < 20 {
        return Err(libc::ENOMSG);
    }
    // A header of 16 bytes, then the descriptor.
    let descriptor = usize::try_from(control[2] & 0xffff_ffff).unwrap_or(0);
    Ok(owned(descriptor))
}

/// File system type and flags.
pub(crate) fn filesystem(path: &str) -> Result<libc::statfs, i32> {
    // SAFETY: all-zero is a valid value to be filled in.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    call(libc::SYS_statfs, &[text(path).as_ptr().addr(), (&raw mut found).addr()])?;
    Ok(found)
}
