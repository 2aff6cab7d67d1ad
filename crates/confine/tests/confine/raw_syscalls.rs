//! Raw system calls for the attempts and the fixture.

#![allow(
    unsafe_code,
    reason = "the calls under test are made as hostile code makes them, past every wrapper"
)]

use std::ffi::CStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use libc::{c_int, c_long, c_void};

/// `SIOCSIFFLAGS`.
const SET_INTERFACE_FLAGS: usize = 0x8914;

/// Makes a system call with up to six arguments. The error is an errno.
pub(crate) fn call(number: c_long, arguments: &[usize]) -> Result<(), i32> {
    value(number, arguments).map(|_| ())
}

pub(crate) fn value(number: c_long, arguments: &[usize]) -> Result<usize, i32> {
    let argument = |index: usize| arguments.get(index).copied().unwrap_or(0);
    // SAFETY: the arguments are numbers, null, or point to memory that outlives the call.
    let answer = unsafe {
        libc::syscall(number, argument(0), argument(1), argument(2), argument(3), argument(4), argument(5))
    };
    usize::try_from(answer).map_err(|_| last_errno())
}

/// Makes a system call that may fork. A child exits at once and is reaped.
pub(crate) fn forking(number: c_long, arguments: &[usize]) -> Result<(), i32> {
    match value(number, arguments)? {
        0 => exit_now(0),
        child => wait_for(child).map(|_| ()),
    }
}

/// The exit code of a child.
pub(crate) fn wait_for(child: usize) -> Result<c_int, i32> {
    let mut status: c_int = 0;
    call(libc::SYS_wait4, &[child, (&raw mut status).addr()])?;
    Ok(libc::WEXITSTATUS(status))
}

/// Calls getpid through the i386 interface.
#[cfg(target_arch = "x86_64")]
pub(crate) fn i386_getpid() -> Result<(), i32> {
    let answer: i64;
    // SAFETY: getpid takes no argument and touches no memory; the clobbered registers are named.
    unsafe {
        std::arch::asm!("int 0x80", inlateout("rax") 20_i64 => answer, out("r8") _, out("r9") _, out("r10") _, out("r11") _);
    }
    if answer > 0 { Ok(()) } else { Err(i32::try_from(-answer).unwrap_or(libc::EINVAL)) }
}

pub(crate) fn open(path: &CStr) -> Result<usize, i32> {
    let at_cwd = (libc::AT_FDCWD as isize).cast_unsigned();
    value(libc::SYS_openat, &[at_cwd, path.as_ptr().addr(), libc::O_RDONLY as usize])
}

pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: takes a plain number and never returns; no destructor of the forked test harness runs.
    unsafe { libc::_exit(code) }
}

pub(crate) fn before_exec(
    command: &mut Command,
    act: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
) {
    // SAFETY: the closure makes system calls only and takes no lock that another thread could hold.
    unsafe { command.pre_exec(act) };
}

pub(crate) fn user_and_group() -> (u32, u32) {
    (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw())
}

/// Enters new namespaces as their root.
pub(crate) fn enter_namespaces(uid: u32, gid: u32) -> io::Result<()> {
    let fresh = libc::CLONE_NEWUSER
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWCGROUP;
    call(libc::SYS_unshare, &[fresh as usize]).map_err(io::Error::from_raw_os_error)?;
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("0 {uid} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("0 {gid} 1"))
}

/// Brings the loopback interface up, which is down in a new network namespace.
pub(crate) fn raise_loopback() -> io::Result<()> {
    let failed = io::Error::from_raw_os_error;
    let socket =
        value(libc::SYS_socket, &[libc::AF_INET as usize, libc::SOCK_DGRAM as usize]).map_err(failed)?;
    // `struct ifreq`: a name of 16 bytes, then the flags IFF_UP and IFF_RUNNING.
    let mut request = [0_u8; 40];
    request[..2].copy_from_slice(b"lo");
    request[16..18].copy_from_slice(&0x41_u16.to_ne_bytes());
    call(libc::SYS_ioctl, &[socket, SET_INTERFACE_FLAGS, request.as_ptr().addr()]).map_err(failed)?;
    call(libc::SYS_close, &[socket]).map_err(failed)
}

/// An iovec over one variable.
pub(crate) fn iovec_of(memory: &mut u64) -> libc::iovec {
    libc::iovec { iov_base: (&raw mut *memory).cast::<c_void>(), iov_len: size_of::<u64>() }
}

fn last_errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL)
}
