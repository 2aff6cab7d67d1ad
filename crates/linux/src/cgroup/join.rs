//! How a process gets into a group: by a descriptor that was opened for it outside.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use super::body::{BodyCgroup, KEEPER, WORK};
use super::files;
use super::group::Group;
use super::survey::Version;

#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    #[error("could not open `{}`", path.display())]
    Open { path: PathBuf, source: io::Error },
}

impl BodyCgroup {
    /// The v2 group of the keeper, for CLONE_INTO_CGROUP. None where v2 is not used: join instead.
    pub fn keeper_directory(&self) -> Result<Option<OwnedFd>, JoinError> {
        let Some(body) = self.tracked().filter(|it| it.version == Version::V2) else { return Ok(None) };
        body.child(KEEPER).open_directory().map(Some)
    }

    /// Files into which a process writes `0` to join the keeper's groups, v2 first. It must have one thread only:
    /// in v1 a thread joins alone, which spares the lock that stops every fork and exec on the host. The kernel
    /// asks for the rights of the one who opened the file.
    pub fn joiners_of_keeper(&self) -> Result<Vec<OwnedFd>, JoinError> {
        let places = self.places.iter().filter(|it| it.has_keeper());
        places.map(|it| it.group.child(KEEPER).open_joiner()).collect()
    }

    /// The same for the groups of the work, where limits hold.
    pub fn joiners_of_work(&self) -> Result<Vec<OwnedFd>, JoinError> {
        self.places.iter().map(|it| it.group.child(WORK).open_joiner()).collect()
    }
}

impl Group {
    pub(super) fn open_joiner(&self) -> Result<OwnedFd, JoinError> {
        let path = self.file(match self.version {
            Version::V1 => "tasks",
            Version::V2 => "cgroup.procs",
        });
        files::open_to_write(&path).map(OwnedFd::from).map_err(|source| JoinError::Open { path, source })
    }

    pub(super) fn open_directory(&self) -> Result<OwnedFd, JoinError> {
        let path = self.directory.clone();
        File::open(&path).map(OwnedFd::from).map_err(|source| JoinError::Open { path, source })
    }
}
