//! Whether a group holds no live process any more, and waiting until it does not.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::patience::Patience;

use super::body::BodyCgroup;
use super::files;
use super::group::Group;
use super::processes::ProcessesError;
use super::survey::Version;

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
    Look(#[from] EmptyError),
}

impl BodyCgroup {
    /// Whether no group of the body holds a live process. A missing group is empty.
    pub fn is_empty(&self) -> Result<bool, EmptyError> {
        for place in &self.places {
            if !place.group.is_empty()? {
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
    /// v2 says it of a whole tree in one file; in v1 the tree is walked.
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
    let mut patience = Patience::of(within);
    while !is_empty()? {
        if patience.pause().is_err() {
            return Err(WaitEmptyError::StillAlive { name: name.to_owned(), within });
        }
    }
    Ok(())
}
