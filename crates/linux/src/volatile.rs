//! The ground for what matters only while this host is up: marks, sockets, notes, id ranges. A disk makes and removes
//! each of these small files at many times what memory takes, and no body outlives the host. So root keeps them on a
//! filesystem in memory, behind links where they would be on the disk. An ordinary user's own, which a logout takes
//! away, is no place for them. Who uses it holds a shared lock on the note that says where it is; the last one takes it
//! away if nothing is in it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock, statfs};
use rustix::io::Errno;
use rustix::process::getuid;

use crate::patience::Patience;
use crate::places::make;

/// What is kept there.
const NAMES: [&str; 2] = ["control", "ids"];
/// Where hosts keep what is gone after a start.
const HOMES: [&str; 2] = ["/run", "/dev/shm"];
const TMPFS: u64 = 0x0102_1994;
/// Whoever prepares or removes it is done in an instant.
const INSTANTS: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Volatile {
    /// None: on the disk.
    note: Option<File>,
}

/// What the note says, on one line.
#[derive(Debug, PartialEq, Eq)]
enum Noted {
    Nothing,
    /// Somebody is making it, or died while he did.
    Intended(PathBuf),
    /// With its device and inode, so that another view of the file system is not taken for this one.
    Ready(PathBuf, u64, u64),
}

impl Volatile {
    /// Makes the directories below this one, wherever they really are.
    pub(crate) fn prepare(data: &Path) -> io::Result<Self> {
        let on_disk = NAMES.iter().any(|name| holds_something_on_disk(&data.join(name)));
        match home().filter(|_| !on_disk) {
            Some(home) => Self::in_memory(data, home),
            None => Self::on_disk(data),
        }
    }

    pub(crate) fn on_disk(data: &Path) -> io::Result<Self> {
        NAMES.iter().try_for_each(|name| make(&data.join(name), 0o700).map(drop))?;
        Ok(Self { note: None })
    }

    fn in_memory(data: &Path, home: &Path) -> io::Result<Self> {
        let path = data.join("volatile");
        let mut note =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        let mut patience = Patience::of(INSTANTS);
        loop {
            if take(&note, FlockOperation::NonBlockingLockShared)? {
                match read(&mut note)? {
                    Noted::Ready(path, device, inode) => {
                        is_the_same(&path, device, inode)?;
                        return Ok(Self { note: Some(note) });
                    }
                    Noted::Nothing | Noted::Intended(_) => {}
                }
            }
            // Whoever else holds it is preparing it, or has done so by the next look.
            if take(&note, FlockOperation::NonBlockingLockExclusive)? {
                set_up(data, home, &mut note)?;
            } else if patience.pause().is_err() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "somebody else prepares it without end"));
            }
        }
    }
}

impl Drop for Volatile {
    fn drop(&mut self) {
        if let Some(note) = &mut self.note {
            // What cannot be taken away now is found by the next one.
            let _ = take_away(note);
        }
    }
}

fn set_up(data: &Path, home: &Path, note: &mut File) -> io::Result<()> {
    let path = match read(note)? {
        Noted::Ready(..) => return Ok(()),
        Noted::Intended(path) => path,
        Noted::Nothing => {
            let path = home.join(format!("pinfold-{:016x}", fresh()?));
            // Before it is there: whoever comes after a crash finds it.
            write(note, &format!("{} {}", boot_id()?, path.display()))?;
            path
        }
    };
    match DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_ours(&path)? => {}
        made => made?,
    }
    for name in NAMES {
        make(&path.join(name), 0o700)?;
        link(&path.join(name), &data.join(name))?;
    }
    let made = fs::symlink_metadata(&path)?;
    write(note, &format!("{} {} {} {}", boot_id()?, path.display(), made.dev(), made.ino()))
}

/// Only by the last one who uses it, and only what is empty.
fn take_away(note: &mut File) -> io::Result<()> {
    if !take(note, FlockOperation::NonBlockingLockExclusive)? {
        return Ok(());
    }
    let Noted::Ready(path, ..) = read(note)? else { return Ok(()) };
    let is_empty = |name| Ok::<_, io::Error>(fs::read_dir(path.join(name))?.next().is_none());
    if NAMES.iter().map(is_empty).collect::<io::Result<Vec<_>>>()?.contains(&false) {
        return Ok(());
    }
    // From here on it is being taken away: one who comes after a crash makes it whole again.
    write(note, &format!("{} {}", boot_id()?, path.display()))?;
    NAMES.iter().try_for_each(|name| fs::remove_dir(path.join(name)))?;
    fs::remove_dir(&path)?;
    write(note, "")
}

fn is_the_same(path: &Path, device: u64, inode: u64) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if (found.dev(), found.ino()) == (device, inode) => Ok(()),
        Ok(_) | Err(_) => Err(io::Error::other(format!(
            "`{}` is not the directory that others use with this data directory; run where they run, outside of \
             containers that have another view of it",
            path.display()
        ))),
    }
}

fn is_ours(path: &Path) -> io::Result<bool> {
    let found = fs::symlink_metadata(path)?;
    Ok(found.is_dir() && found.uid() == getuid().as_raw() && found.mode() & 0o077 == 0)
}

/// From before there was a ground in memory, or from a user without one.
fn holds_something_on_disk(path: &Path) -> bool {
    let is_directory = fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    is_directory && fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some())
}

/// In place of the directory or of the link that was there.
fn link(to: &Path, at: &Path) -> io::Result<()> {
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

/// None for who is not root, and where the host has none.
fn home() -> Option<&'static Path> {
    let is_in_memory =
        |path: &&Path| statfs(*path).is_ok_and(|found| u64::try_from(found.f_type) == Ok(TMPFS));
    getuid().is_root().then(|| HOMES.iter().map(Path::new).find(is_in_memory)).flatten()
}

fn take(note: &File, how: FlockOperation) -> io::Result<bool> {
    match flock(note, how) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A note from before the host's last start says nothing: what it names is gone.
fn read(note: &mut File) -> io::Result<Noted> {
    let mut text = String::new();
    note.rewind()?;
    note.read_to_string(&mut text)?;
    let words: Vec<&str> = text.split_whitespace().collect();
    Ok(match words[..] {
        [boot, path] if boot == boot_id()? => Noted::Intended(path.into()),
        [boot, path, device, inode] if boot == boot_id()? => match (device.parse(), inode.parse()) {
            (Ok(device), Ok(inode)) => Noted::Ready(path.into(), device, inode),
            _ => Noted::Nothing,
        },
        _ => Noted::Nothing,
    })
}

fn write(note: &mut File, text: &str) -> io::Result<()> {
    note.rewind()?;
    note.set_len(0)?;
    note.write_all(text.as_bytes())
}

fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

fn fresh() -> io::Result<u64> {
    let mut bytes = [0; 8];
    // The kernel gives as few as this whole.
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_le_bytes(bytes))
}

#[cfg(test)]
#[path = "volatile/tests.rs"]
mod tests;
