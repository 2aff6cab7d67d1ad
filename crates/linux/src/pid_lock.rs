//! Lock and pid file that prove whether process 1 of an instance is alive, across crashes.
//!
//! The file `keeper.pid` is locked before the keeper is spawned, through a descriptor that the keeper inherits and
//! holds for life. The spawner writes pid and start time into it before the keeper may do anything. So at every
//! instant of a keeper's life the lock or the pid shows it. The file `launch` is locked while an instance is being
//! created.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use pinfold_procfs::start_time;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::bounded_wait::BoundedWait;
use crate::paths::InstancePaths;

/// Poll interval for a lock that another process holds.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// A process that only tests the lock releases it at once.
const TEST_LOCK_TIMEOUT: Duration = Duration::from_secs(1);
/// A spawner holds the lock for a moment after its child has exited, longer on a busy host.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(10);

/// Exclusive right to create an instance. Released on drop, or when the holder dies.
pub(crate) struct LaunchLock {
    _lock: File,
}

impl LaunchLock {
    /// Waits for another launch of this instance. The control directory must exist and stay.
    pub(crate) async fn acquire(paths: &InstancePaths) -> io::Result<Self> {
        let path = paths.launch_lock();
        let lock = open(&path)?;
        while !try_lock(&lock)? {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        check_not_replaced(&path, &lock)?;
        Ok(Self { _lock: lock })
    }
}

/// Locks and empties the pid file, for the spawner to write into and for the keeper to hold.
pub(crate) fn lock_for_keeper(paths: &InstancePaths) -> io::Result<File> {
    let lock = lock_pid_file(paths, TEST_LOCK_TIMEOUT)?;
    // Truncating even an empty file makes some file systems write it to disk on close.
    if lock.metadata()?.len() > 0 {
        lock.set_len(0)?;
    }
    Ok(lock)
}

/// While the returned file is held no keeper can be spawned, so the control directory may be removed. `None`: there
/// is no such directory.
pub(crate) fn block_spawning(paths: &InstancePaths) -> io::Result<Option<File>> {
    let mut lock = match lock_pid_file(paths, RELEASE_TIMEOUT) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        taken => taken?,
    };
    match read_pid(&mut lock)? {
        Some(KeeperStatus::Alive(..)) => Err(io::Error::other("a keeper was spawned meanwhile")),
        Some(KeeperStatus::Absent | KeeperStatus::Starting) | None => Ok(Some(lock)),
    }
}

fn lock_pid_file(paths: &InstancePaths, within: Duration) -> io::Result<File> {
    let path = paths.pid_file();
    let lock = open(&path)?;
    let mut wait = BoundedWait::new(within);
    while !try_lock(&lock)? {
        if wait.pause().is_err() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "a keeper holds the pid file"));
        }
    }
    check_not_replaced(&path, &lock)?;
    Ok(lock)
}

/// A concurrent stop may have removed the file together with its directory: then the lock protects nothing.
fn check_not_replaced(path: &Path, lock: &File) -> io::Result<()> {
    let is_same = std::fs::metadata(path)?.ino() == lock.metadata()?.ino();
    if is_same { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
}

/// Status of process 1 of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeeperStatus {
    Absent,
    /// Being spawned: the lock is held and no pid is written yet.
    Starting,
    /// Pid and start time in clock ticks.
    Alive(i32, u64),
}

pub(crate) fn keeper_status(paths: &InstancePaths) -> io::Result<KeeperStatus> {
    let mut file = match File::open(paths.pid_file()) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(KeeperStatus::Absent),
        Err(error) => return Err(error),
    };
    // Test the lock before reading: a keeper that exits in between has left its pid.
    let held = is_held(&file)?;
    Ok(match read_pid(&mut file)? {
        Some(keeper) => keeper,
        None if held => KeeperStatus::Starting,
        None => KeeperStatus::Absent,
    })
}

/// Status by the pid file alone; `None` if it names no process. A recorded process that has exited tells more than
/// the lock, which the spawner may hold a moment longer.
fn read_pid(file: &mut File) -> io::Result<Option<KeeperStatus>> {
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let read_pid =
        text.split_once(' ').and_then(|(pid, since)| Some((pid.parse().ok()?, since.parse().ok()?)));
    let Some((pid, since)) = read_pid else { return Ok(None) };
    // Another start time means that the pid was reused.
    let lives = start_time(pid)? == Some(since);
    Ok(Some(if lives { KeeperStatus::Alive(pid, since) } else { KeeperStatus::Absent }))
}

fn open(path: &Path) -> io::Result<File> {
    pinfold_private_files::options().read(true).write(true).create(true).truncate(false).open(path)
}

fn try_lock(file: &File) -> io::Result<bool> {
    locked(flock(file, FlockOperation::NonBlockingLockExclusive))
}

fn is_held(file: &File) -> io::Result<bool> {
    Ok(!locked(flock(file, FlockOperation::NonBlockingLockShared))?)
}

fn locked(answer: Result<(), Errno>) -> io::Result<bool> {
    match answer {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
#[path = "pid_lock/tests.rs"]
mod tests;
