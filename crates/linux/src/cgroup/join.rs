//! Joining a cgroup, by a descriptor opened outside the sandbox.
//!
//! Costs: a write to `cgroup.procs` blocks every fork and exec of the host and first waits for an RCU grace period, 8
//! ms on an idle host. A single thread that joins by `tasks` (v1 only) takes 0.08 ms; cloning into a v2 cgroup is
//! free. So v1 uses `tasks`: the joining process has one thread.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use super::detect::Version;
use super::files;
use super::group::Group;
use super::instance::{HierarchyGroup, InstanceCgroup, KEEPER, WORK};

#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    #[error("could not open `{}`", path.display())]
    Open { path: PathBuf, source: io::Error },
}

impl InstanceCgroup {
    /// The v2 cgroup of the keeper, for `CLONE_INTO_CGROUP`. `None` where v2 is not used: join instead.
    pub fn keeper_directory(&self) -> Result<Option<OwnedFd>, JoinError> {
        self.v2_directory(KEEPER)
    }

    /// The v2 cgroup of the workload. Executions have their own below: see [`super::ExecutionCgroup::directory`].
    pub fn work_directory(&self) -> Result<Option<OwnedFd>, JoinError> {
        self.v2_directory(WORK)
    }

    /// Files into which a process writes `0` to join all cgroups of the keeper, v2 first. The kernel checks the
    /// permissions of the opener. A process cloned into its v2 cgroup uses [`InstanceCgroup::v1_keeper_join_files`].
    pub fn keeper_join_files(&self) -> Result<Vec<OwnedFd>, JoinError> {
        self.join_files(HierarchyGroup::keeper, |_| true)
    }

    /// The same for the cgroups of the workload, where limits apply.
    pub fn work_join_files(&self) -> Result<Vec<OwnedFd>, JoinError> {
        self.join_files(|it| Some(it.work()), |_| true)
    }

    /// The cgroups of the keeper that a process cannot be cloned into.
    pub fn v1_keeper_join_files(&self) -> Result<Vec<OwnedFd>, JoinError> {
        self.join_files(HierarchyGroup::keeper, |it| it == Version::V1)
    }

    /// The cgroups of the workload that a process cannot be cloned into.
    pub fn v1_work_join_files(&self) -> Result<Vec<OwnedFd>, JoinError> {
        self.join_files(|it| Some(it.work()), |it| it == Version::V1)
    }

    fn v2_directory(&self, leaf: &str) -> Result<Option<OwnedFd>, JoinError> {
        let Some(instance) = self.tracked().filter(|it| it.version == Version::V2) else { return Ok(None) };
        instance.child(leaf).open_directory().map(Some)
    }

    fn join_files(
        &self,
        group: fn(&HierarchyGroup) -> Option<Group>,
        wanted: fn(Version) -> bool,
    ) -> Result<Vec<OwnedFd>, JoinError> {
        // Never skip the tracking cgroup: an error is better than a process that cannot be killed.
        let is_there = |it: &&HierarchyGroup| it.found || it.tracks;
        let groups = self.groups.iter().filter(is_there).filter(|it| wanted(it.group.version));
        groups.filter_map(group).map(|it| it.open_join_file()).collect()
    }
}

impl Group {
    pub(super) fn open_join_file(&self) -> Result<OwnedFd, JoinError> {
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
