//! Control groups: where a body's processes are counted, limited, found and ended as a whole. Works on v2, on v1
//! and on machines that have both, with files alone. [`Cgroups`] is this host's share of them, [`BodyCgroup`]
//! the groups of one body: `<base>/<name>/keeper` and `<base>/<name>/work`.

mod abilities;
mod bases;
mod body;
mod delegate;
mod discover;
mod empty;
mod events;
mod execution;
mod files;
mod group;
mod hierarchy;
mod join;
mod kill;
mod limits;
mod make;
mod membership;
mod mounts;
mod name;
mod noted;
mod processes;
mod remove;
mod survey;
mod usage;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

pub use abilities::{Abilities, Ability};
pub use body::{BodyCgroup, OpenError};
pub use delegate::DelegateError;
pub use discover::{DiscoverError, LookError};
pub use empty::{EmptyError, WaitEmptyError};
pub use execution::{ExecutionCgroup, ExecutionError};
pub use join::JoinError;
pub use kill::{EndError, KillError};
pub use limits::CgroupLimits;
pub use make::{MakeError, RemoveBaseError};
pub use name::BadName;
pub use processes::ProcessesError;
pub use remove::RemoveError;
pub use usage::{Breaches, CgroupUsage};

use hierarchy::Hierarchy;
use survey::{Controller, Version};

/// The cgroup hierarchies of this host as far as this process may use them. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Cgroups {
    base_name: Arc<str>,
    hierarchies: Arc<[Hierarchy]>,
    /// Look for bases at every place a process of ours may have put one, also where that is not needed to find
    /// those of processes with our own rights.
    everywhere: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum DetectError {
    #[error(transparent)]
    Name(#[from] BadName),
    #[error("could not read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
}

impl Cgroups {
    /// Finds out what this host offers. Changes nothing. Not being allowed to use it is no error: see
    /// [`Cgroups::abilities`].
    pub fn detect(base_name: &str) -> Result<Cgroups, DetectError> {
        name::check(base_name)?;
        let mountinfo = read("/proc/self/mountinfo")?;
        let membership = read("/proc/self/cgroup")?;
        let surveyed = survey::survey(&mountinfo, &membership);
        Ok(Cgroups::from_survey(base_name, surveyed))
    }

    fn from_survey(base_name: &str, surveyed: Vec<survey::Surveyed>) -> Cgroups {
        let hierarchies = hierarchy::settle(surveyed);
        Cgroups { base_name: base_name.into(), hierarchies: hierarchies.into(), everywhere: false }
    }

    /// Also finds bodies of the same base that were made with other rights than ours, as root would those of an
    /// ordinary user. Costs a walk through all groups of the host at each look.
    #[must_use]
    pub fn searching_everywhere(mut self) -> Cgroups {
        self.everywhere = true;
        self
    }

    /// Whether counting bytes read and written costs nothing beyond asking: in v1 it is a group more.
    #[must_use]
    pub fn counts_io_cheaply(&self) -> bool {
        let mut hierarchies = self.hierarchies.iter();
        hierarchies.any(|it| it.usable() && it.version == Version::V2 && it.has(Controller::Io))
    }

    /// What can be done on this host, by what, and what is missing for the rest.
    #[must_use]
    pub fn abilities(&self) -> Abilities {
        abilities::of(&self.hierarchies)
    }
}

/// A kernel that was built without cgroups has no such file.
fn read(path: &str) -> Result<String, DetectError> {
    match std::fs::read(path) {
        // Paths that are not UTF-8 belong to groups and mounts that we do not use.
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(source) => Err(DetectError::Read { path: path.into(), source }),
    }
}
