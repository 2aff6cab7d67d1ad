//! The two files by which a body's processes are told apart from nobody, whatever dies when.
//!
//! `process` is locked before its keeper is born, through a descriptor that the keeper inherits and holds as long as
//! it lives, and it says which process that is before the keeper may do anything at all. So there is no instant
//! at which a keeper lives and neither the lock nor the note tells of it. `launch` is locked while somebody makes the body.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use pinfold_keeper::process::began;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::patience::Patience;
use crate::places::Places;

/// Between two looks at a lock that another holds.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Whoever tests a lock holds it for an instant.
const INSTANTS: Duration = Duration::from_secs(1);
/// A nursery still has the lock for a moment when its child is gone, and on a busy host it is not its turn for a while.
const LETTING_GO: Duration = Duration::from_secs(10);

/// The right to make a body. Given up when it is dropped, or its holder dies.
pub(crate) struct Launching {
    _lock: File,
}

impl Launching {
    /// Waits for whoever makes this body at the moment. Its directory must be there, and stay there.
    pub(crate) async fn begin(places: &Places) -> io::Result<Self> {
        let path = places.launch();
        let lock = open(&path)?;
        while !take(&lock)? {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        still_stands(&path, &lock)?;
        Ok(Self { _lock: lock })
    }
}

/// The locked and empty `process`, for the nursery to write into and for the keeper to hold.
pub(crate) fn claim(places: &Places) -> io::Result<File> {
    let lock = take_process(places, INSTANTS)?;
    // To cut down even an empty file makes some filesystems write it to the disk when it is closed.
    if lock.metadata()?.len() > 0 {
        lock.set_len(0)?;
    }
    Ok(lock)
}

/// While this is held no keeper can be born here, so that the mark may be taken away. None: there is no mark.
pub(crate) fn seal(places: &Places) -> io::Result<Option<File>> {
    let mut lock = match take_process(places, LETTING_GO) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        taken => taken?,
    };
    match noted(&mut lock)? {
        Some(Keeper::Alive(..)) => Err(io::Error::other("a keeper was born meanwhile")),
        Some(Keeper::Nobody | Keeper::Unborn) | None => Ok(Some(lock)),
    }
}

fn take_process(places: &Places, within: Duration) -> io::Result<File> {
    let path = places.process();
    let lock = open(&path)?;
    let mut patience = Patience::of(within);
    while !take(&lock)? {
        if patience.pause().is_err() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "a keeper holds the place"));
        }
    }
    still_stands(&path, &lock)?;
    Ok(lock)
}

/// A stop that was quicker took the file away with the mark: then what is locked is nobody's.
fn still_stands(path: &Path, lock: &File) -> io::Result<()> {
    let is_same = std::fs::metadata(path)?.ino() == lock.metadata()?.ino();
    if is_same { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
}

/// What is known of process 1 of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keeper {
    Nobody,
    /// Being born at this instant.
    Unborn,
    /// Alive, with its process id and when it began.
    Alive(i32, u64),
}

pub(crate) fn keeper(places: &Places) -> io::Result<Keeper> {
    let mut file = match File::open(places.process()) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Keeper::Nobody),
        Err(error) => return Err(error),
    };
    // The lock is looked at before the note is read: one that is let go of meanwhile has left its note.
    let held = is_held(&file)?;
    Ok(match noted(&mut file)? {
        Some(keeper) => keeper,
        None if held => Keeper::Unborn,
        None => Keeper::Nobody,
    })
}

/// What the note says by itself. One whose process is gone tells more than the lock, which may outlive a keeper by an
/// instant in the hands of its makers.
fn noted(file: &mut File) -> io::Result<Option<Keeper>> {
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let noted = text.split_once(' ').and_then(|(pid, since)| Some((pid.parse().ok()?, since.parse().ok()?)));
    let Some((pid, since)) = noted else { return Ok(None) };
    // Another start time is another process.
    let lives = began(pid)? == Some(since);
    Ok(Some(if lives { Keeper::Alive(pid, since) } else { Keeper::Nobody }))
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
}

fn take(file: &File) -> io::Result<bool> {
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
#[path = "hold/tests.rs"]
mod tests;
