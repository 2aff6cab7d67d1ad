//! Removes cgroups, deepest first, including those that code inside created below ours.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;

use crate::bounded_wait::BoundedWait;

use super::group::Group;
use super::instance::InstanceCgroup;

/// Maximum depth. Each level holds a descriptor; paths stay short.
const MAX_DEPTH: usize = 256;

#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    #[error("cgroup `{}` is still there after {} ms", path.display(), within.as_millis())]
    StillPresent { path: PathBuf, within: Duration, source: io::Error },
}

impl RemoveError {
    /// The cgroup that could not be removed.
    #[must_use]
    pub fn left(&self) -> &Path {
        let RemoveError::StillPresent { path, .. } = self;
        path
    }
}

impl InstanceCgroup {
    /// Removes all cgroups of the instance. Missing ones are no error. Retries while processes are exiting; kills
    /// none. Continues after a failure and returns the first one.
    pub fn remove(&self, within: Duration) -> Result<(), RemoveError> {
        let mut first_failed = Ok(());
        for hierarchy_group in &self.groups {
            // Two calls that nearly always save the search for child cgroups.
            for leaf in hierarchy_group
                .keeper()
                .into_iter()
                .chain([hierarchy_group.work()])
                .filter(|it| *it != hierarchy_group.group)
            {
                let _retried_below = leaf.remove_directory();
            }
            first_failed = first_failed.and(hierarchy_group.group.remove(within));
        }
        first_failed
    }
}

impl Group {
    fn remove_directory(&self) -> Result<(), Errno> {
        ignore_missing(unlinkat(CWD, &self.directory, AtFlags::REMOVEDIR))
    }

    pub(super) fn remove(&self, within: Duration) -> Result<(), RemoveError> {
        let mut wait = BoundedWait::new(within);
        loop {
            let Err(first) = self.remove_directory() else { return Ok(()) };
            // `EBUSY`: it has children, or processes.
            let below = if first == Errno::BUSY { self.remove_below() } else { Err(first) };
            let Err(error) = below.and_then(|()| self.remove_directory()) else { return Ok(()) };
            if error != Errno::BUSY || wait.pause().is_err() {
                return Err(RemoveError::StillPresent {
                    path: self.directory.clone(),
                    within,
                    source: error.into(),
                });
            }
        }
    }

    fn remove_below(&self) -> Result<(), Errno> {
        match openat(CWD, &self.directory, DIRECTORY, Mode::empty()) {
            Ok(directory) => remove_children(&directory, MAX_DEPTH),
            other => ignore_missing(other.map(drop)),
        }
    }
}

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Removes as many children as possible and returns the first failure.
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
        if ignore_missing(unlinkat(group, name, AtFlags::REMOVEDIR)).is_ok() {
            continue;
        }
        let below = match openat(group, name, DIRECTORY, Mode::empty()) {
            Ok(child) => remove_children(&child, depth - 1),
            other => ignore_missing(other.map(drop)),
        };
        result = result.and(below.and_then(|()| ignore_missing(unlinkat(group, name, AtFlags::REMOVEDIR))));
    }
    result
}

/// A missing cgroup counts as removed.
fn ignore_missing(removed: Result<(), Errno>) -> Result<(), Errno> {
    match removed {
        Err(Errno::NOENT | Errno::NODEV) => Ok(()),
        other => other,
    }
}
