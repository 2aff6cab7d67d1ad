//! Checks that the filesystem supports file locks. Without them two processes would overwrite each other, and SQLite
//! would not notice.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// The file on which locks are tried. It is not removed: other processes may be trying at the same time.
pub(crate) const FILE: &str = "pinfold.lock";

#[derive(Debug, thiserror::Error)]
pub(crate) enum LockError {
    #[error("could not open `{FILE}`")]
    Open(#[source] io::Error),
    #[error("could not lock `{FILE}`")]
    Lock(#[source] io::Error),
    #[error("a lock on `{FILE}` excludes no other holder")]
    Ignored,
}

/// Opens the file twice: a lock through one descriptor must exclude the other.
pub(crate) fn check_locks_work(directory: &Path) -> Result<(), LockError> {
    let path = directory.join(FILE);
    let (first, second) = (open(&path)?, open(&path)?);
    // A byte that hardly any other process tries now. If one does, the lock is taken, which also shows that locks work.
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
    let options =
        pinfold_private_files::options().read(true).write(true).create(true).truncate(false).clone();
    let file = options.open(path).map_err(LockError::Open)?;
    pinfold_private_files::tighten(path).map_err(LockError::Open)?;
    Ok(file)
}

/// Locks of open file descriptions exclude each other also within one process, unlike the POSIX locks that SQLite uses;
/// the same part of the filesystem implements both.
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
