//! A local directory that receives files from a sandbox. Every path is resolved beneath it without following links, so
//! that hostile file names cannot touch anything else.

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

use super::sandbox_files::is_path_component;

/// Only permission bits are copied; setuid, setgid and sticky bits are dropped.
const PERMISSION_BITS: u32 = 0o777;
/// Mode of a directory until its content is complete.
const INCOMPLETE_MODE: u32 = 0o700;

pub(super) struct TargetDirectory {
    top: OwnedFd,
}

/// A path below the target directory whose components were each checked. Empty: the directory itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RelativePath(Vec<u8>);

impl RelativePath {
    /// None: `name` is not a single path component.
    pub(super) fn join(&self, name: &[u8]) -> Option<Self> {
        is_path_component(name).then(|| Self(super::sandbox_files::join(&self.0, name)))
    }

    /// The parent directory and the last component.
    fn split(&self) -> (&[u8], &[u8]) {
        match self.0.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&self.0[..slash], &self.0[slash + 1..]),
            None => (b".", &self.0),
        }
    }
}

impl TargetDirectory {
    pub(super) fn of(directory: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { top: openat(CWD, directory, flags, Mode::empty())? })
    }

    /// Opens a subdirectory. The kernel refuses links and paths that leave the directory, also while other processes
    /// rename things.
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

    /// Creates a directory. An existing directory is not an error.
    pub(super) fn make_directory(&self, at: &RelativePath) -> io::Result<()> {
        let (parent, name) = at.split();
        match mkdirat(self.directory(parent)?, name, Mode::from_raw_mode(INCOMPLETE_MODE)) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => self.directory(&at.0).map(drop),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn set_mode(&self, at: &RelativePath, mode: u32) -> io::Result<()> {
        Ok(fchmod(self.directory(&at.0)?, Mode::from_raw_mode(mode & PERMISSION_BITS))?)
    }

    pub(super) fn make_link(&self, at: &RelativePath, target: &[u8]) -> io::Result<()> {
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

    pub(super) fn pending_file(&self, at: &RelativePath) -> io::Result<PendingFile> {
        let (parent, name) = at.split();
        PendingFile::new(self.directory(parent)?, name.to_vec())
    }
}

/// A temporary file that [`PendingFile::commit`] renames into place. Dropping it removes it.
pub(super) struct PendingFile {
    directory: OwnedFd,
    name: Vec<u8>,
    temporary_name: String,
    file: File,
    committed: bool,
}

impl PendingFile {
    fn new(directory: OwnedFd, name: Vec<u8>) -> io::Result<Self> {
        let mut random = [0; 8];
        getrandom(&mut random, GetRandomFlags::empty())?;
        let temporary_name = format!(".pinfold-{:016x}", u64::from_le_bytes(random));
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(directory.as_fd(), &temporary_name, flags, Mode::from_raw_mode(0o600))?.into();
        Ok(Self { directory, name, temporary_name, file, committed: false })
    }

    pub(super) fn write(&mut self, chunk: &[u8]) -> io::Result<()> {
        self.file.write_all(chunk)
    }

    /// Renames the file into place, replacing anything but a directory.
    pub(super) fn commit(mut self, mode: u32) -> io::Result<()> {
        fchmod(&self.file, Mode::from_raw_mode(mode & PERMISSION_BITS))?;
        renameat(&self.directory, &self.temporary_name, &self.directory, &self.name)?;
        self.committed = true;
        Ok(())
    }
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        if !self.committed {
            let _ = unlinkat(&self.directory, &self.temporary_name, AtFlags::empty());
        }
    }
}

/// Opens a local regular file and returns its mode. Pipes and devices, which could block, are refused.
pub(super) fn open_regular_file(path: &Path) -> io::Result<(File, u32)> {
    use std::os::unix::fs::PermissionsExt;

    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty())?);
    let facts = file.metadata()?;
    if !facts.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok((file, facts.permissions().mode() & 0o7777))
}
