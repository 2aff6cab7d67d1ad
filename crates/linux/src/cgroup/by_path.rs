//! Cgroups by recorded path: checking recorded paths costs one call each, where a search by name may walk all cgroups
//! of the host.

use std::path::{Path, PathBuf};

use super::Cgroups;
use super::detect::Controller;
use super::discover;
use super::group::Group;
use super::hierarchy::Hierarchy;
use super::instance::{HierarchyGroup, InstanceCgroup, OpenCgroupError};
use super::limits::CgroupLimits;
use super::make::{self, RemoveBaseError};
use super::name::{self, BadName};

impl Cgroups {
    /// The directories that [`Cgroups::make`] creates for an instance with these limits.
    pub fn planned_directories(&self, name: &str, limits: &CgroupLimits) -> Result<Vec<PathBuf>, BadName> {
        name::check(name)?;
        let chosen = self.hierarchies.iter().filter(|it| it.is_needed_for(limits));
        Ok(chosen.map(|it| self.own_base(it).join(name)).collect())
    }

    /// Opens the cgroups of an instance at exactly these paths. `None`: a path is in no known hierarchy, or not a
    /// cgroup of this instance.
    pub fn open_at(
        &self,
        name: &str,
        directories: &[PathBuf],
    ) -> Result<Option<InstanceCgroup>, OpenCgroupError> {
        name::check(name)?;
        let mut groups = Vec::new();
        for directory in directories {
            let Some(hierarchy) = self.hierarchy_of(directory, name) else { return Ok(None) };
            let found = discover::exists(directory)
                .map_err(|source| OpenCgroupError::Read { path: directory.clone(), source })?;
            groups.push(hierarchy.group_at(directory.clone(), found));
        }
        Ok(Some(InstanceCgroup::new(name, groups)))
    }

    /// Any base is accepted: it is named after the store that the instance was made with, and that store may have
    /// been replaced since.
    fn hierarchy_of(&self, directory: &Path, name: &str) -> Option<&Hierarchy> {
        let base = directory.parent().filter(|_| directory.ends_with(name))?;
        self.hierarchies.iter().find(|it| base != it.mount_point && base.starts_with(&it.mount_point))
    }

    /// Removes the bases of this instance that are empty, except those where this process creates its own. A base in
    /// use stays, which is no error.
    pub fn remove_foreign_bases_of(&self, instance: &InstanceCgroup) -> Result<(), RemoveBaseError> {
        let bases = instance.groups.iter().filter_map(|it| it.group.directory.parent());
        let foreign = bases.filter(|base| self.own_bases().all(|home| home != *base));
        foreign.into_iter().try_for_each(|base| make::remove_empty(base.to_path_buf()))
    }

    /// Removes the bases of this process that are empty.
    pub fn remove_own_bases(&self) -> Result<(), RemoveBaseError> {
        self.own_bases().try_for_each(make::remove_empty)
    }

    fn own_bases(&self) -> impl Iterator<Item = PathBuf> {
        self.hierarchies.iter().filter(|it| it.usable()).map(|it| self.own_base(it))
    }
}

impl Hierarchy {
    /// Whether an instance with these limits gets a cgroup here.
    pub(super) fn is_needed_for(&self, limits: &CgroupLimits) -> bool {
        self.usable() && (self.tracks || !self.controllers_for(limits).is_empty())
    }

    pub(super) fn controllers_for(&self, limits: &CgroupLimits) -> Vec<Controller> {
        self.controllers.iter().copied().filter(|it| limits.want(*it)).collect()
    }

    pub(super) fn group_at(&self, directory: PathBuf, found: bool) -> HierarchyGroup {
        HierarchyGroup {
            group: Group { version: self.version, directory },
            controllers: self.controllers.clone(),
            tracks: self.tracks,
            found,
        }
    }
}
