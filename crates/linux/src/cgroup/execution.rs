//! One execution's own group below the work, so that its process tree ends as a whole, whatever became of its
//! parents, sessions and names. Limits stay on the work.

use std::os::fd::OwnedFd;
use std::time::Duration;

use super::body::{BodyCgroup, WORK};
use super::empty::{self, EmptyError, WaitEmptyError};
use super::group::Group;
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

/// Why an execution has no group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExecutionError {
    #[error(transparent)]
    Name(#[from] BadName),
    #[error("no cgroup hierarchy of this host can be used to follow processes")]
    NoHierarchy,
}

impl BodyCgroup {
    /// The group of an execution by its id alone. Makes nothing.
    pub fn execution(&self, id: &str) -> Result<ExecutionCgroup, ExecutionError> {
        name::check(id)?;
        let body = self.tracked().ok_or(ExecutionError::NoHierarchy)?;
        Ok(ExecutionCgroup { id: id.to_owned(), group: body.child(WORK).child(id) })
    }
}

impl ExecutionCgroup {
    /// Making again what exists succeeds.
    pub fn make(&self) -> Result<(), MakeError> {
        make::make_directory(&self.group.directory)
    }

    /// For CLONE_INTO_CGROUP where the hierarchy is v2.
    pub fn directory(&self) -> Result<OwnedFd, JoinError> {
        self.group.open_directory()
    }

    /// A file into which a process writes `0` to join, having joined the groups of the work. Dear in v2: clone
    /// into it instead.
    pub fn joiner(&self) -> Result<OwnedFd, JoinError> {
        self.group.open_joiner()
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
