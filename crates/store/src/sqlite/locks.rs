//! Whether the filesystem keeps locks. On one that does not, two processes would write over each other, and
//! SQLite would not notice.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// The file in which locks are tried. It stays: others may be trying at the same time.
pub(super) const FILE: &str = "pinfold.lock";

#[derive(Debug, thiserror::Error)]
pub(super) enum LockError {
    #[error("could not open `{FILE}`")]
    Open(#[source] io::Error),
    #[error("could not lock `{FILE}`")]
    Lock(#[source] io::Error),
    #[error("a lock on `{FILE}` kept nobody out")]
    Ignored,
}

/// Opens the file twice: a lock through one must keep the other out.
pub(super) fn hold(directory: &Path) -> Result<(), LockError> {
    let path = directory.join(FILE);
    let (first, second) = (open(&path)?, open(&path)?);
    // A byte that hardly anybody else tries at this moment: they look alike to us, and that is no failure.
    let byte = i64::from(std::process::id()) << 16 | i64::from(first.as_raw_fd());
    match lock(&first, byte) {
        Ok(()) => {}
        Err(error) if is_taken(&error) => return Ok(()),
        Err(error) => return Err(LockError::Lock(error)),
    }
    match lock(&second, byte) {
        Ok(()) => Err(LockError::Ignored),
        Err(error) if is_taken(&error) => Ok(()),
        Err(error) => Err(LockError::Lock(error)),
    }
}

fn open(path: &Path) -> Result<File, LockError> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(LockError::Open)
}

/// Locks of an open file description exclude each other also within one process, unlike SQLite's own kind, and
/// are kept by the same part of the filesystem.
#[allow(unsafe_code, reason = "the standard library has no byte-range locks")]
#[allow(
    clippy::cast_possible_truncation,
    reason = "the constants are small, and the struct wants them short"
)]
fn lock(file: &File, byte: i64) -> io::Result<()> {
    let wanted = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: byte,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: the descriptor is open while `file` is borrowed, and the kernel only reads `wanted`.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &wanted) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn is_taken(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES))
}
