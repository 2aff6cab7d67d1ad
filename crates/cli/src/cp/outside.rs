//! A directory here that is filled from a sandbox: whatever names come from there, nothing beside it is touched and
//! no link in it is followed.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, ResolveFlags, fchmod, mkdirat, open, openat, openat2, renameat, symlinkat,
    unlinkat,
};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use super::inside::is_plain_name;

/// What is made here runs as nobody else: of a mode only the rights are taken.
const RIGHTS: u32 = 0o777;
/// Nobody else looks at what is half there.
const UNFINISHED: u32 = 0o700;

pub(super) struct Ground {
    top: OwnedFd,
}

/// Where in the ground: names that were each checked. Empty: the ground itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Spot(Vec<u8>);

impl Spot {
    /// None where the name would lead elsewhere.
    pub(super) fn below(&self, name: &[u8]) -> Option<Self> {
        is_plain_name(name).then(|| Self(super::inside::below(&self.0, name)))
    }

    /// The directory that it is in, and its name there.
    fn split(&self) -> (&[u8], &[u8]) {
        match self.0.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&self.0[..slash], &self.0[slash + 1..]),
            None => (b".", &self.0),
        }
    }
}

impl Ground {
    pub(super) fn of(directory: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { top: openat(CWD, directory, flags, Mode::empty())? })
    }

    /// No link on the way, no way out: also not while somebody moves things about.
    fn directory(&self, path: &[u8]) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let path = if path.is_empty() { &b"."[..] } else { path };
        loop {
            match openat2(&self.top, path, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                other => return Ok(other?),
            }
        }
    }

    /// One that is there already is as good as one that is made.
    pub(super) fn make_directory(&self, at: &Spot) -> io::Result<()> {
        let (parent, name) = at.split();
        match mkdirat(self.directory(parent)?, name, Mode::from_raw_mode(UNFINISHED)) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => self.directory(&at.0).map(drop),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn set_mode(&self, at: &Spot, mode: u32) -> io::Result<()> {
        Ok(fchmod(self.directory(&at.0)?, Mode::from_raw_mode(mode & RIGHTS))?)
    }

    pub(super) fn make_link(&self, at: &Spot, target: &[u8]) -> io::Result<()> {
        let (parent, name) = at.split();
        let parent = self.directory(parent)?;
        match symlinkat(target, &parent, name) {
            Err(Errno::EXIST) => {
                unlinkat(&parent, name, AtFlags::empty())?;
                Ok(symlinkat(target, &parent, name)?)
            }
            other => Ok(other?),
        }
    }

    pub(super) fn draft(&self, at: &Spot) -> io::Result<Draft> {
        let (parent, name) = at.split();
        Draft::new(self.directory(parent)?, name.to_vec())
    }
}

/// A file that is not yet what it is to become. Dropping it removes it.
pub(super) struct Draft {
    directory: OwnedFd,
    name: Vec<u8>,
    working_name: String,
    file: File,
    is_in_place: bool,
}

impl Draft {
    fn new(directory: OwnedFd, name: Vec<u8>) -> io::Result<Self> {
        let mut random = [0; 8];
        getrandom(&mut random, GetRandomFlags::empty())?;
        let working_name = format!(".pinfold-{:016x}", u64::from_le_bytes(random));
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(directory.as_fd(), &working_name, flags, Mode::from_raw_mode(0o600))?.into();
        Ok(Self { directory, name, working_name, file, is_in_place: false })
    }

    pub(super) fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        self.file.write_all(piece)
    }

    /// What has the name makes way, a link too; a directory does not.
    pub(super) fn put(mut self, mode: u32) -> io::Result<()> {
        fchmod(&self.file, Mode::from_raw_mode(mode & RIGHTS))?;
        renameat(&self.directory, &self.working_name, &self.directory, &self.name)?;
        self.is_in_place = true;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_in_place {
            let _ = unlinkat(&self.directory, &self.working_name, AtFlags::empty());
        }
    }
}

/// A plain file here, and its mode. What is none, or would never answer, is refused.
pub(super) fn open_file(path: &Path) -> io::Result<(File, u32)> {
    use std::os::unix::fs::PermissionsExt;

    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty())?);
    let facts = file.metadata()?;
    if !facts.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a plain file"));
    }
    Ok((file, facts.permissions().mode() & 0o7777))
}
