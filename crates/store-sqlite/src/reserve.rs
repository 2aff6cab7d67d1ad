//! Room on the disk that is kept back, so that sandboxes can be stopped and a server be started on a full disk: both write
//! to the store. The room is a file, which is emptied when the disk is full and filled again when there is room. While it
//! is empty nothing new is created. Every process of the data directory uses the same file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, statvfs};

/// Enough for the records of some thousand stops.
const BYTES: u64 = 4 << 20;
/// With less room than this the disk counts as full: the files of a start need some of it too.
const FULL_BELOW: u64 = 512 << 10;
/// The file is filled when there is this much room, so that it does not take the last of a small disk.
const FILL_FROM: u64 = 4 * BYTES;

#[derive(Debug, Clone)]
pub(crate) struct Reserve {
    path: PathBuf,
}

impl Reserve {
    pub(crate) fn at(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Empties the file. Returns whether that freed anything.
    pub(crate) fn release(&self) -> bool {
        let had = length(&self.path) > 0;
        had && fs::OpenOptions::new().write(true).truncate(true).open(&self.path).is_ok()
    }

    /// A missing file is none in use: the disk never had room for one.
    pub(crate) fn is_in_use(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|file| file.len() == 0)
    }

    /// Fills or empties the file, as the free space of the disk demands.
    pub(crate) fn adjust(&self) -> io::Result<()> {
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        let found = statvfs(directory)?;
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        if free < FULL_BELOW {
            self.release();
        } else if free >= FILL_FROM && length(&self.path) < BYTES {
            self.fill()?;
        }
        Ok(())
    }

    fn fill(&self) -> io::Result<()> {
        let file =
            pinfold_private_files::options().write(true).create(true).truncate(false).open(&self.path)?;
        let filled = fallocate(&file, FallocateFlags::empty(), 0, BYTES);
        if filled.is_err() {
            file.set_len(0)?;
        }
        Ok(filled?)
    }
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |file| file.len())
}
