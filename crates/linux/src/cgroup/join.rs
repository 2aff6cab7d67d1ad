//! How a process gets into a group: by a descriptor that was opened for it outside.
//!
//! What costs: a write to `cgroup.procs` holds up every fork and exec of the host and waits for the kernel's readers
//! first, 8 ms after a quiet moment. A single thread that joins by `tasks` (v1 only) takes 0.08 ms, and a
//! process that is cloned into its v2 group nothing. So `tasks` it is in v1: the joining process has one thread.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use super::body::{BodyCgroup, KEEPER, Place, WORK};
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
        self.v2_directory(KEEPER)
    }

    /// The same of the work. An execution has its own below: see [`super::ExecutionCgroup::directory`].
    pub fn work_directory(&self) -> Result<Option<OwnedFd>, JoinError> {
        self.v2_directory(WORK)
    }

    /// Files into which a process writes `0` to join all of the keeper's groups, v2 first. The kernel asks for the
    /// rights of the one who opened the file. A process that was cloned into its v2 group takes
    /// [`BodyCgroup::v1_joiners_of_keeper`].
    pub fn joiners_of_keeper(&self) -> Result<Vec<OwnedFd>, JoinError> {
        self.joiners(Place::keeper, |_| true)
    }

    /// The same for the groups of the work, where limits hold.
    pub fn joiners_of_work(&self) -> Result<Vec<OwnedFd>, JoinError> {
        self.joiners(|it| Some(it.work()), |_| true)
    }

    /// Those of the keeper's groups that a process cannot be cloned into.
    pub fn v1_joiners_of_keeper(&self) -> Result<Vec<OwnedFd>, JoinError> {
        self.joiners(Place::keeper, |it| it == Version::V1)
    }

    /// Those of the work's groups that a process cannot be cloned into.
    pub fn v1_joiners_of_work(&self) -> Result<Vec<OwnedFd>, JoinError> {
        self.joiners(|it| Some(it.work()), |it| it == Version::V1)
    }

    fn v2_directory(&self, leaf: &str) -> Result<Option<OwnedFd>, JoinError> {
        let Some(body) = self.tracked().filter(|it| it.version == Version::V2) else { return Ok(None) };
        body.child(leaf).open_directory().map(Some)
    }

    fn joiners(
        &self,
        group: fn(&Place) -> Option<Group>,
        wanted: fn(Version) -> bool,
    ) -> Result<Vec<OwnedFd>, JoinError> {
        // The tracking group is never passed over: better an error than a process that nobody can end.
        let is_there = |it: &&Place| it.found || it.tracks;
        let places = self.places.iter().filter(is_there).filter(|it| wanted(it.group.version));
        places.filter_map(group).map(|it| it.open_joiner()).collect()
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
