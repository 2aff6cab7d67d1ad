//! The cgroups of one instance, in every hierarchy where it has any.

use std::io;
use std::path::PathBuf;

use super::Cgroups;
use super::bases::BaseLookupError;
use super::detect::{Controller, Version};
use super::group::Group;
use super::name::{self, BadName};

pub(super) const KEEPER: &str = "keeper";
pub(super) const WORK: &str = "work";

/// The cgroups of one instance: `keeper` for its process 1, which limits and kills of the workload do not reach, and
/// `work` for everything else; hierarchies that need no such split have one cgroup for the work alone. Holds only
/// names, so any process can build it before and after the instance exists.
#[derive(Debug, Clone)]
pub struct InstanceCgroup {
    name: String,
    pub(super) groups: Vec<HierarchyGroup>,
}

/// The cgroup of an instance in one hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HierarchyGroup {
    pub(super) group: Group,
    pub(super) controllers: Vec<Controller>,
    pub(super) tracks: bool,
    /// Known to exist; otherwise the path where it would be.
    pub(super) found: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum OpenCgroupError {
    #[error(transparent)]
    Name(#[from] BadName),
    #[error("could not read cgroup `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
}

impl Cgroups {
    /// Opens the cgroups of an instance by name alone, by whichever process they were created and however many of
    /// them exist.
    pub fn open(&self, name: &str) -> Result<InstanceCgroup, OpenCgroupError> {
        name::check(name)?;
        let mut groups = Vec::new();
        for hierarchy in self.hierarchies.iter() {
            let mut directories = self
                .existing_in(hierarchy, name)
                .map_err(|BaseLookupError { path, source }| OpenCgroupError::Read { path, source })?;
            let found = !directories.is_empty();
            if !found && hierarchy.usable() {
                // It may be about to be created.
                directories.push(self.own_base(hierarchy).join(name));
            }
            groups.extend(directories.into_iter().map(|directory| hierarchy.group_at(directory, found)));
        }
        Ok(InstanceCgroup::new(name, groups))
    }
}

impl InstanceCgroup {
    pub(super) fn new(name: &str, groups: Vec<HierarchyGroup>) -> InstanceCgroup {
        InstanceCgroup { name: name.to_owned(), groups }
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The cgroup by which processes are found and killed. `None` where no hierarchy is usable.
    pub(super) fn tracked(&self) -> Option<&Group> {
        self.all_tracked().next()
    }

    /// Whether processes can be found by cgroup.
    pub(crate) fn tracks(&self) -> bool {
        self.tracked().is_some()
    }

    /// More than one only if two processes created the same instance below different bases.
    pub(super) fn all_tracked(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().filter(|it| it.tracks).map(|it| &it.group)
    }

    /// The work cgroup in the hierarchy that has the controller.
    pub(super) fn work_with(&self, controller: Controller) -> Option<Group> {
        self.groups.iter().find(|it| it.controllers.contains(&controller)).map(HierarchyGroup::work)
    }

    pub(super) fn v2_work(&self) -> Option<Group> {
        let group = self.groups.iter().find(|it| it.group.version == Version::V2)?;
        Some(group.work())
    }
}

impl HierarchyGroup {
    /// The cgroup that limits apply to. In v1 hierarchies that do not track processes this is the instance's cgroup
    /// itself: a memory cgroup costs the kernel memory for each file system on the host (100 KiB beside a thousand
    /// sandboxes), and as much work at its removal.
    pub(super) fn work(&self) -> Group {
        match self.group.version {
            Version::V1 if !self.tracks => self.group.clone(),
            Version::V1 | Version::V2 => self.group.child(WORK),
        }
    }

    /// The cgroup of the keeper. It needs one where it is killed with its instance, and in v2 where the memory
    /// controller is enabled for children. Elsewhere it stays where it was spawned, out of reach of limits as well,
    /// which saves a cgroup and a join.
    pub(super) fn keeper(&self) -> Option<Group> {
        let memory_is_enabled =
            self.group.version == Version::V2 && self.controllers.contains(&Controller::Memory);
        (self.tracks || memory_is_enabled).then(|| self.group.child(KEEPER))
    }
}
