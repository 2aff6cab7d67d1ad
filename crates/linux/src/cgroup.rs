//! Control groups: count, limit, find and kill the processes of an instance as a whole. Works with v1, v2 and hybrid
//! hosts, through files alone. [`Cgroups`] is the part of the hierarchies that this process may use,
//! [`InstanceCgroup`] the cgroups of one instance: `<base>/<name>/keeper` and `<base>/<name>/work`.

mod abilities;
mod bases;
mod by_path;
mod delegate;
mod detect;
mod discover;
mod empty;
mod events;
mod execution;
mod files;
mod group;
mod hierarchy;
mod instance;
mod join;
mod kill;
mod limits;
mod make;
mod membership;
mod mounts;
mod name;
mod processes;
mod remove;
mod usage;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

pub use abilities::{Abilities, Ability};
pub use delegate::DelegateError;
pub use discover::{DiscoverCgroupsError, FindCgroupError};
pub use empty::{EmptyError, WaitEmptyError};
pub use execution::{ExecutionCgroup, ExecutionError};
pub use instance::{InstanceCgroup, OpenCgroupError};
pub use join::JoinError;
pub use kill::{KillAllError, KillError};
pub use limits::CgroupLimits;
pub use make::{MakeError, RemoveBaseError};
pub use name::BadName;
pub use processes::ProcessesError;
pub use remove::RemoveError;
pub use usage::{CgroupUsage, LimitEvents};

use detect::{Controller, Version};
use hierarchy::Hierarchy;

/// The cgroup hierarchies of this host as far as this process may use them. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Cgroups {
    base_name: Arc<str>,
    hierarchies: Arc<[Hierarchy]>,
    /// Search every directory of a hierarchy for bases, also where processes with our privileges use a fixed one.
    search_everywhere: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum DetectError {
    #[error(transparent)]
    Name(#[from] BadName),
    #[error("could not read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
}

impl Cgroups {
    /// Detects what this host offers. Changes nothing. Missing permissions are no error: see [`Cgroups::abilities`].
    pub fn detect(base_name: &str) -> Result<Cgroups, DetectError> {
        name::check(base_name)?;
        let mountinfo = read("/proc/self/mountinfo")?;
        let membership = read("/proc/self/cgroup")?;
        let detected = detect::detect_hierarchies(&mountinfo, &membership);
        Ok(Cgroups::from_detected(base_name, detected))
    }

    fn from_detected(base_name: &str, detected: Vec<detect::DetectedHierarchy>) -> Cgroups {
        let hierarchies = hierarchy::classify(detected);
        Cgroups { base_name: base_name.into(), hierarchies: hierarchies.into(), search_everywhere: false }
    }

    /// Also finds instances created with other privileges, such as those of an ordinary user when running as root.
    /// Each search then walks all cgroups of the host.
    #[must_use]
    pub fn searching_everywhere(mut self) -> Cgroups {
        self.search_everywhere = true;
        self
    }

    /// Whether counting bytes read and written needs no extra cgroup. In v1 it needs one.
    #[must_use]
    pub fn counts_io_cheaply(&self) -> bool {
        let mut hierarchies = self.hierarchies.iter();
        hierarchies.any(|it| it.usable() && it.version == Version::V2 && it.has(Controller::Io))
    }

    /// What this host can enforce, by what means, and what is missing for the rest.
    #[must_use]
    pub fn abilities(&self) -> Abilities {
        abilities::of(&self.hierarchies)
    }
}

/// The file is missing in kernels built without cgroups.
fn read(path: &str) -> Result<String, DetectError> {
    match std::fs::read(path) {
        // Non-UTF-8 paths belong to cgroups and mounts that we do not use.
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(source) => Err(DetectError::Read { path: path.into(), source }),
    }
}
