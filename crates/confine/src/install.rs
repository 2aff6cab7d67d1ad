//! Installs a seccomp program: the only `unsafe` code of this module.

#![allow(
    unsafe_code,
    reason = "seccomp takes a pointer to the program, and no safe wrapper leaves no_new_privs alone"
)]

use libc::{SECCOMP_SET_MODE_FILTER, SYS_seccomp, c_ulong, sock_fprog};
use rustix::io::Errno;

use super::program::Program;

/// Applies the program to the calling thread and its future children. It cannot be removed.
pub(super) fn install(program: &Program) -> Result<(), Errno> {
    let instructions = program.instructions();
    let len = u16::try_from(instructions.len()).map_err(|_| Errno::INVAL)?;
    let program = sock_fprog { len, filter: instructions.as_ptr().cast_mut() };
    let no_flags: c_ulong = 0;

    // Load the filter with seccomp(SECCOMP_SET_MODE_FILTER).
    // SAFETY: `filter` points to `len` instructions that outlive the call; the kernel copies and never writes them.
    let answer = unsafe { libc::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, no_flags, &raw const program) };
    if answer == 0 { Ok(()) } else { Err(last_error()) }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}
