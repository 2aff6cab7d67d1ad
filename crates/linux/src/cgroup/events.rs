//! Files with the kernel's counters of limit events, as descriptors that need no path inside the sandbox.

use std::fs::File;
use std::os::fd::OwnedFd;

use super::detect::{Controller, Version};
use super::instance::InstanceCgroup;
use super::join::JoinError;

impl InstanceCgroup {
    /// A file with a line `oom_kill COUNT`: processes of the workload killed by the OOM killer.
    pub fn memory_events(&self) -> Result<Option<OwnedFd>, JoinError> {
        self.events(Controller::Memory, |version| match version {
            Version::V1 => "memory.oom_control",
            Version::V2 => "memory.events",
        })
    }

    /// A file with a line `max COUNT`: forks that the process limit refused.
    pub fn process_events(&self) -> Result<Option<OwnedFd>, JoinError> {
        self.events(Controller::Pids, |_| "pids.events")
    }

    /// `None` where the controller is not used.
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
