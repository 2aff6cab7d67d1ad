//! Taking groups away, the deepest first, also those that somebody made below ours.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;

use crate::patience::Patience;

use super::body::BodyCgroup;
use super::group::Group;

/// How deep nested groups are taken away. Each level holds a descriptor, and no path gets too long.
const DEEPEST: usize = 256;

#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    #[error("cgroup `{}` is still there after {} ms", path.display(), within.as_millis())]
    Left { path: PathBuf, within: Duration, source: io::Error },
}

impl RemoveError {
    /// The group that is left, with whatever is below it.
    #[must_use]
    pub fn left(&self) -> &Path {
        let RemoveError::Left { path, .. } = self;
        path
    }
}

impl BodyCgroup {
    /// Removes all groups of the body. Those that are not there are removed. Tries again while processes are on
    /// their way out; does not end any. Goes on past what cannot be removed, and says the first of it.
    pub fn remove(&self, within: Duration) -> Result<(), RemoveError> {
        let mut first_failed = Ok(());
        for place in &self.places {
            // Calls that nearly always spare the looking for groups below.
            for leaf in place.keeper().into_iter().chain([place.work()]).filter(|it| *it != place.group) {
                let _looked_at_again_below = leaf.remove_directory();
            }
            first_failed = first_failed.and(place.group.remove(within));
        }
        first_failed
    }
}

impl Group {
    fn remove_directory(&self) -> Result<(), Errno> {
        gone(unlinkat(CWD, &self.directory, AtFlags::REMOVEDIR))
    }

    pub(super) fn remove(&self, within: Duration) -> Result<(), RemoveError> {
        let mut patience = Patience::of(within);
        loop {
            let Err(first) = self.remove_directory() else { return Ok(()) };
            // Busy with groups below, or with processes.
            let below = if first == Errno::BUSY { self.remove_below() } else { Err(first) };
            let Err(error) = below.and_then(|()| self.remove_directory()) else { return Ok(()) };
            if error != Errno::BUSY || patience.pause().is_err() {
                return Err(RemoveError::Left { path: self.directory.clone(), within, source: error.into() });
            }
        }
    }

    fn remove_below(&self) -> Result<(), Errno> {
        match openat(CWD, &self.directory, DIRECTORY, Mode::empty()) {
            Ok(directory) => remove_children(&directory, DEEPEST),
            other => gone(other.map(drop)),
        }
    }
}

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Removes what it can, and tells of the first group that it could not.
fn remove_children(group: &OwnedFd, depth: usize) -> Result<(), Errno> {
    if depth == 0 {
        return Err(Errno::LOOP);
    }
    let mut result = Ok(());
    for entry in Dir::read_from(group)? {
        let entry = entry?;
        let name = entry.file_name();
        if entry.file_type() != FileType::Directory || name == c"." || name == c".." {
            continue;
        }
        if gone(unlinkat(group, name, AtFlags::REMOVEDIR)).is_ok() {
            continue;
        }
        let below = match openat(group, name, DIRECTORY, Mode::empty()) {
            Ok(child) => remove_children(&child, depth - 1),
            other => gone(other.map(drop)),
        };
        result = result.and(below.and_then(|()| gone(unlinkat(group, name, AtFlags::REMOVEDIR))));
    }
    result
}

/// What is not there is removed.
fn gone(removed: Result<(), Errno>) -> Result<(), Errno> {
    match removed {
        Err(Errno::NOENT | Errno::NODEV) => Ok(()),
        other => other,
    }
}
