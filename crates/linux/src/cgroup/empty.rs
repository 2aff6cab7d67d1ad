//! Checks whether a cgroup holds no live process, and waits for that.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::bounded_wait::BoundedWait;

use super::detect::Version;
use super::files;
use super::group::Group;
use super::instance::InstanceCgroup;
use super::processes::ProcessesError;

#[derive(Debug, thiserror::Error)]
pub enum EmptyError {
    #[error("could not read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("`{}` does not say whether there are processes", path.display())]
    Unclear { path: PathBuf },
    #[error(transparent)]
    Processes(#[from] ProcessesError),
}

#[derive(Debug, thiserror::Error)]
pub enum WaitEmptyError {
    #[error("cgroup of `{name}` still holds processes after {} ms", within.as_millis())]
    StillAlive { name: String, within: Duration },
    #[error(transparent)]
    Check(#[from] EmptyError),
}

impl InstanceCgroup {
    /// Whether no cgroup of the instance holds a live process. A missing cgroup is empty.
    pub fn is_empty(&self) -> Result<bool, EmptyError> {
        for hierarchy_group in &self.groups {
            if !hierarchy_group.group.is_empty()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub fn wait_empty(&self, within: Duration) -> Result<(), WaitEmptyError> {
        wait(self.name(), within, || self.is_empty())
    }
}

impl Group {
    /// v2 reports it for a whole subtree in one file; in v1 the subtree is walked.
    pub(super) fn is_empty(&self) -> Result<bool, EmptyError> {
        if self.version == Version::V1 {
            return Ok(self.processes()?.is_empty());
        }
        let path = self.file("cgroup.events");
        match files::read(&path) {
            Ok(text) => match files::keyed(&text, "populated") {
                Some(populated) => Ok(populated == 0),
                None => Err(EmptyError::Unclear { path }),
            },
            Err(error) if files::is_gone(&error) => Ok(true),
            Err(source) => Err(EmptyError::Read { path, source }),
        }
    }
}

pub(super) fn wait(
    name: &str,
    within: Duration,
    is_empty: impl Fn() -> Result<bool, EmptyError>,
) -> Result<(), WaitEmptyError> {
    let mut wait = BoundedWait::new(within);
    while !is_empty()? {
        if wait.pause().is_err() {
            return Err(WaitEmptyError::StillAlive { name: name.to_owned(), within });
        }
    }
    Ok(())
}
