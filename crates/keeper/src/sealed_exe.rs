//! Re-executes the program from a sealed copy in memory. Code inside can make a child of the keeper run
//! `/proc/self/exe` and so reach the program's file (CVE-2019-5736). For a spawner run by root the file belongs to
//! another user than everyone inside; an unprivileged user's own file would be writable from the user's sandboxes.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use rustix::io::Errno;
use rustix::process::geteuid;

/// Re-executes this program from a sealed memfd, if it is unprivileged and not sealed yet. If the host allows no such
/// copy it continues unsealed: a running executable cannot be written to either (ETXTBSY).
pub(crate) fn reexec_sealed() {
    if !geteuid().is_root() && !is_sealed() {
        let _why_not = reexec();
    }
}

fn is_sealed() -> bool {
    File::open(EXE).is_ok_and(|own| fcntl_get_seals(&own).is_ok_and(|seals| seals.contains(SEALS)))
}

const EXE: &str = "/proc/self/exe";
const SEALS: SealFlags =
    SealFlags::WRITE.union(SealFlags::GROW).union(SealFlags::SHRINK).union(SealFlags::SEAL);

/// Returns only on failure.
fn reexec() -> io::Result<()> {
    let mut copy = File::from(new_memfd()?);
    io::copy(&mut File::open(EXE)?, &mut copy)?;
    // Forbid all later changes of the copy (F_ADD_SEALS).
    fcntl_add_seals(&copy, SEALS)?;
    let arguments: Vec<_> = std::env::args_os().collect();
    let mut program = Command::new(format!("/proc/self/fd/{}", copy.as_raw_fd()));
    if let Some((name, rest)) = arguments.split_first() {
        program.arg0(name).args(rest);
    }
    Err(program.exec())
}

fn new_memfd() -> Result<std::os::fd::OwnedFd, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match memfd_create("pinfold", flags | MemfdFlags::EXEC) {
        // Kernels before 6.3 do not know MFD_EXEC and allow execution of every memfd.
        Err(Errno::INVAL) => memfd_create("pinfold", flags),
        made => made,
    }
}
