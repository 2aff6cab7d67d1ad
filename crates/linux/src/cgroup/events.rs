//! The kernel's counts of what the work was refused, as descriptors: whoever holds one sees the count without a path.

use std::fs::File;
use std::os::fd::OwnedFd;

use super::body::BodyCgroup;
use super::join::JoinError;
use super::survey::{Controller, Version};

impl BodyCgroup {
    /// A file with a line `oom_kill COUNT`: processes of the work that were killed for memory.
    pub fn memory_events(&self) -> Result<Option<OwnedFd>, JoinError> {
        self.events(Controller::Memory, |version| match version {
            Version::V1 => "memory.oom_control",
            Version::V2 => "memory.events",
        })
    }

    /// A file with a line `max COUNT`: processes and threads that the work could not make.
    pub fn process_events(&self) -> Result<Option<OwnedFd>, JoinError> {
        self.events(Controller::Pids, |_| "pids.events")
    }

    /// None where the controller is not used.
    fn events(
        &self,
        controller: Controller,
        file: fn(Version) -> &'static str,
    ) -> Result<Option<OwnedFd>, JoinError> {
        let Some(work) = self.work_with(controller) else { return Ok(None) };
        let path = work.file(file(work.version));
        let opened = File::open(&path).map_err(|source| JoinError::Open { path, source })?;
        Ok(Some(opened.into()))
    }
}
