//! Directories for what matters only while this host is up: control directories and id ranges. A disk takes many
//! times as long as memory to create and remove such small files, and no instance outlives a reboot. So root keeps
//! them on a tmpfs, behind symlinks in the data directory. The tmpfs of an ordinary user is removed at logout and is
//! not used. Each process holds a shared lock on the record file that names the directory; the last one removes it if
//! it is empty.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock, statfs};
use rustix::io::Errno;
use rustix::process::getuid;

use crate::bounded_wait::BoundedWait;
use crate::paths::make_directory;

/// Directories that are moved to the tmpfs.
const SUBDIRECTORIES: [&str; 2] = ["control", "ids"];
/// Where hosts mount a tmpfs.
const TMPFS_CANDIDATES: [&str; 2] = ["/run", "/dev/shm"];
const TMPFS: u64 = 0x0102_1994;
/// Time limit for another process that prepares or removes the directory.
const PREPARE_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct RuntimeDir {
    /// The record file, with a shared lock. `None`: on disk.
    record: Option<File>,
}

/// Content of the record file, one line.
#[derive(Debug, PartialEq, Eq)]
enum RuntimeRecord {
    Empty,
    /// Being created, or its creator crashed.
    Creating(PathBuf),
    /// With device and inode, so that another mount namespace's directory of the same name is not taken for this one.
    Ready(PathBuf, u64, u64),
}

impl RuntimeDir {
    /// Creates the directories on tmpfs or on disk.
    pub(crate) fn prepare(data: &Path) -> io::Result<Self> {
        let on_disk = SUBDIRECTORIES.iter().any(|name| holds_something_on_disk(&data.join(name)));
        match tmpfs_root().filter(|_| !on_disk) {
            Some(tmpfs_root) => Self::in_memory(data, tmpfs_root),
            None => Self::on_disk(data),
        }
    }

    pub(crate) fn on_disk(data: &Path) -> io::Result<Self> {
        SUBDIRECTORIES.iter().try_for_each(|name| make_directory(&data.join(name), 0o700).map(drop))?;
        Ok(Self { record: None })
    }

    fn in_memory(data: &Path, tmpfs_root: &Path) -> io::Result<Self> {
        let path = data.join("runtime_dir");
        let mut record =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        let mut wait = BoundedWait::new(PREPARE_TIMEOUT);
        loop {
            if try_lock(&record, FlockOperation::NonBlockingLockShared)? {
                match read(&mut record)? {
                    RuntimeRecord::Ready(path, device, inode) => {
                        check_identity(&path, device, inode)?;
                        return Ok(Self { record: Some(record) });
                    }
                    RuntimeRecord::Empty | RuntimeRecord::Creating(_) => {}
                }
            }
            // Another process is preparing it, or has done so by the next attempt.
            if try_lock(&record, FlockOperation::NonBlockingLockExclusive)? {
                create(data, tmpfs_root, &mut record)?;
            } else if wait.pause().is_err() {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "another process holds the runtime directory lock for too long",
                ));
            }
        }
    }
}

impl Drop for RuntimeDir {
    fn drop(&mut self) {
        if let Some(record) = &mut self.record {
            // What cannot be removed now is found by the next process.
            let _ = remove_if_unused(record);
        }
    }
}

fn create(data: &Path, tmpfs_root: &Path, record: &mut File) -> io::Result<()> {
    let path = match read(record)? {
        RuntimeRecord::Ready(..) => return Ok(()),
        RuntimeRecord::Creating(path) => path,
        RuntimeRecord::Empty => {
            let path = tmpfs_root.join(format!("pinfold-{:016x}", random_u64()?));
            // Recorded before it is created, so that it is found after a crash.
            write(record, &format!("{} {}", boot_id()?, path.display()))?;
            path
        }
    };
    match DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_private_directory(&path)? => {}
        made => made?,
    }
    for name in SUBDIRECTORIES {
        make_directory(&path.join(name), 0o700)?;
        replace_with_symlink(&path.join(name), &data.join(name))?;
    }
    let made = fs::symlink_metadata(&path)?;
    write(record, &format!("{} {} {} {}", boot_id()?, path.display(), made.dev(), made.ino()))
}

/// Removes the directory if no other process uses it and it is empty.
fn remove_if_unused(record: &mut File) -> io::Result<()> {
    if !try_lock(record, FlockOperation::NonBlockingLockExclusive)? {
        return Ok(());
    }
    let RuntimeRecord::Ready(path, ..) = read(record)? else { return Ok(()) };
    let is_empty = |name| Ok::<_, io::Error>(fs::read_dir(path.join(name))?.next().is_none());
    if SUBDIRECTORIES.iter().map(is_empty).collect::<io::Result<Vec<_>>>()?.contains(&false) {
        return Ok(());
    }
    // From here on it is being removed: after a crash the next process creates it anew.
    write(record, &format!("{} {}", boot_id()?, path.display()))?;
    SUBDIRECTORIES.iter().try_for_each(|name| fs::remove_dir(path.join(name)))?;
    fs::remove_dir(&path)?;
    write(record, "")
}

fn check_identity(path: &Path, device: u64, inode: u64) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if (found.dev(), found.ino()) == (device, inode) => Ok(()),
        Ok(_) | Err(_) => Err(io::Error::other(format!(
            "`{}` is not the runtime directory that other processes use with this data directory; run in the \
             same mount namespace, outside of containers that have another view of it",
            path.display()
        ))),
    }
}

fn is_private_directory(path: &Path) -> io::Result<bool> {
    let found = fs::symlink_metadata(path)?;
    Ok(found.is_dir() && found.uid() == getuid().as_raw() && found.mode() & 0o077 == 0)
}

/// Left from a run on disk, by an older version or by an ordinary user.
fn holds_something_on_disk(path: &Path) -> bool {
    let is_directory = fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    is_directory && fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some())
}

/// Replaces the directory or symlink at `at`.
fn replace_with_symlink(to: &Path, at: &Path) -> io::Result<()> {
    if fs::symlink_metadata(at).is_ok_and(|found| found.is_dir()) {
        fs::remove_dir(at)?;
    }
    let new = at.with_extension("new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    symlink(to, &new)?;
    fs::rename(new, at)
}

/// `None`: not root, or the host has no tmpfs.
fn tmpfs_root() -> Option<&'static Path> {
    let is_in_memory =
        |path: &&Path| statfs(*path).is_ok_and(|found| u64::try_from(found.f_type) == Ok(TMPFS));
    getuid().is_root().then(|| TMPFS_CANDIDATES.iter().map(Path::new).find(is_in_memory)).flatten()
}

fn try_lock(record: &File, how: FlockOperation) -> io::Result<bool> {
    match flock(record, how) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A record from before the last boot is void: what it names is gone.
fn read(record: &mut File) -> io::Result<RuntimeRecord> {
    let mut text = String::new();
    record.rewind()?;
    record.read_to_string(&mut text)?;
    let words: Vec<&str> = text.split_whitespace().collect();
    Ok(match words[..] {
        [boot, path] if boot == boot_id()? => RuntimeRecord::Creating(path.into()),
        [boot, path, device, inode] if boot == boot_id()? => match (device.parse(), inode.parse()) {
            (Ok(device), Ok(inode)) => RuntimeRecord::Ready(path.into(), device, inode),
            _ => RuntimeRecord::Empty,
        },
        _ => RuntimeRecord::Empty,
    })
}

fn write(record: &mut File, text: &str) -> io::Result<()> {
    record.rewind()?;
    record.set_len(0)?;
    record.write_all(text.as_bytes())
}

fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

fn random_u64() -> io::Result<u64> {
    let mut bytes = [0; 8];
    // The kernel returns so few bytes in one call.
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_le_bytes(bytes))
}

#[cfg(test)]
#[path = "runtime_dir/tests.rs"]
mod tests;
