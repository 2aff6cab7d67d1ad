//! The cgroup of one execution below `work`, so that its process tree is killed as a whole, also what changed parent
//! or session. Limits stay on `work`.

use std::os::fd::OwnedFd;
use std::time::Duration;

use super::empty::{self, EmptyError, WaitEmptyError};
use super::group::Group;
use super::instance::{InstanceCgroup, WORK};
use super::join::JoinError;
use super::kill::KillError;
use super::make::{self, MakeError};
use super::name::{self, BadName};
use super::processes::ProcessesError;
use super::remove::RemoveError;

#[derive(Debug, Clone)]
pub struct ExecutionCgroup {
    id: String,
    group: Group,
}

/// Why an execution has no cgroup.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExecutionError {
    #[error(transparent)]
    Name(#[from] BadName),
    #[error("no cgroup hierarchy of this host can be used to follow processes")]
    NoHierarchy,
}

impl InstanceCgroup {
    /// The cgroup of an execution by its id. Creates nothing.
    pub fn execution(&self, id: &str) -> Result<ExecutionCgroup, ExecutionError> {
        name::check(id)?;
        let instance = self.tracked().ok_or(ExecutionError::NoHierarchy)?;
        Ok(ExecutionCgroup { id: id.to_owned(), group: instance.child(WORK).child(id) })
    }
}

impl ExecutionCgroup {
    /// Creates the cgroup. An existing one is no error.
    pub fn make(&self) -> Result<(), MakeError> {
        make::make_directory(&self.group.directory)
    }

    /// Directory descriptor for `CLONE_INTO_CGROUP`, v2 only.
    pub fn directory(&self) -> Result<OwnedFd, JoinError> {
        self.group.open_directory()
    }

    /// The file into which a process writes `0` to join, after joining the cgroups of the workload. Slow in v2: clone
    /// into the cgroup instead.
    pub fn join_file(&self) -> Result<OwnedFd, JoinError> {
        self.group.open_join_file()
    }

    pub fn kill(&self) -> Result<(), KillError> {
        self.group.kill()
    }

    pub fn is_empty(&self) -> Result<bool, EmptyError> {
        self.group.is_empty()
    }

    pub fn wait_empty(&self, within: Duration) -> Result<(), WaitEmptyError> {
        empty::wait(&self.id, within, || self.is_empty())
    }

    pub fn processes(&self) -> Result<Vec<u32>, ProcessesError> {
        Ok(self.group.processes()?.into_iter().collect())
    }

    pub fn remove(&self, within: Duration) -> Result<(), RemoveError> {
        self.group.remove(within)
    }
}
