//! The program itself as a sealed copy in memory. What runs inside can make a child run `/proc/self/exe`, and so reach
//! the file that it was started from (CVE-2019-5736). As root that file is somebody else's to everyone inside; an
//! ordinary user's own would be in reach of his sandboxes.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use rustix::io::Errno;
use rustix::process::geteuid;

/// Starts this program again from a copy that nobody can write to, if it has to be and is not one. Where the host
/// allows no such copy it goes on as it is: a file that is being run cannot be written to either.
pub(crate) fn become_a_sealed_copy() {
    if !geteuid().is_root() && !is_sealed() {
        let _why_not = start_again();
    }
}

fn is_sealed() -> bool {
    File::open(EXE).is_ok_and(|own| fcntl_get_seals(&own).is_ok_and(|seals| seals.contains(SEALS)))
}

const EXE: &str = "/proc/self/exe";
const SEALS: SealFlags =
    SealFlags::WRITE.union(SealFlags::GROW).union(SealFlags::SHRINK).union(SealFlags::SEAL);

/// Comes back only with the reason why not.
fn start_again() -> io::Result<()> {
    let mut copy = File::from(make()?);
    io::copy(&mut File::open(EXE)?, &mut copy)?;
    fcntl_add_seals(&copy, SEALS)?;
    let arguments: Vec<_> = std::env::args_os().collect();
    let mut program = Command::new(format!("/proc/self/fd/{}", copy.as_raw_fd()));
    if let Some((name, rest)) = arguments.split_first() {
        program.arg0(name).args(rest);
    }
    Err(program.exec())
}

fn make() -> Result<std::os::fd::OwnedFd, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match memfd_create("pinfold", flags | MemfdFlags::EXEC) {
        // Kernels before 6.3 do not know that word, and let every such file be run.
        Err(Errno::INVAL) => memfd_create("pinfold", flags),
        made => made,
    }
}
