//! Groups by their places, for those who write down where they make a body's groups: to find them again costs a
//! call for each, where a search by name alone may walk through all groups of the host.

use std::path::{Path, PathBuf};

use super::Cgroups;
use super::body::{BodyCgroup, OpenError, Place};
use super::discover;
use super::group::Group;
use super::hierarchy::Hierarchy;
use super::limits::CgroupLimits;
use super::make::{self, RemoveBaseError};
use super::name::{self, BadName};
use super::survey::Controller;

impl Cgroups {
    /// The directories that [`Cgroups::make`] makes for a body with these limits, and no others.
    pub fn places_for(&self, name: &str, limits: &CgroupLimits) -> Result<Vec<PathBuf>, BadName> {
        name::check(name)?;
        let chosen = self.hierarchies.iter().filter(|it| it.is_chosen(limits));
        Ok(chosen.map(|it| self.home_base(it).join(name)).collect())
    }

    /// The groups of a body at exactly these places, however much of them there is. None: one of them is in no
    /// hierarchy that we know, or not a group of this body.
    pub fn open_at(&self, name: &str, directories: &[PathBuf]) -> Result<Option<BodyCgroup>, OpenError> {
        name::check(name)?;
        let mut places = Vec::new();
        for directory in directories {
            let Some(hierarchy) = self.hierarchy_of(directory, name) else { return Ok(None) };
            let found = discover::exists(directory)
                .map_err(|source| OpenError::Look { path: directory.clone(), source })?;
            places.push(hierarchy.place(directory.clone(), found));
        }
        Ok(Some(BodyCgroup::new(name, places)))
    }

    fn hierarchy_of(&self, directory: &Path, name: &str) -> Option<&Hierarchy> {
        let base = directory.parent()?;
        let is_ours = directory.ends_with(name) && base.ends_with(&*self.base_name);
        self.hierarchies.iter().find(|it| is_ours && base.starts_with(&it.mount_point))
    }

    /// Removes the bases that hold this body's places, if no body is in them, but for those where this process would
    /// make its next. What holds a body stays, and that is no error.
    pub fn remove_foreign_bases_of(&self, body: &BodyCgroup) -> Result<(), RemoveBaseError> {
        let bases = body.places.iter().filter_map(|it| it.group.directory.parent());
        let foreign = bases.filter(|base| self.home_bases().all(|home| home != *base));
        foreign.into_iter().try_for_each(|base| make::remove_empty(base.to_path_buf()))
    }

    /// Removes the bases in which this process makes groups, if no body is in them.
    pub fn remove_home_bases(&self) -> Result<(), RemoveBaseError> {
        self.home_bases().try_for_each(make::remove_empty)
    }

    fn home_bases(&self) -> impl Iterator<Item = PathBuf> {
        self.hierarchies.iter().filter(|it| it.usable()).map(|it| self.home_base(it))
    }
}

impl Hierarchy {
    /// Whether a body with these limits has a group here.
    pub(super) fn is_chosen(&self, limits: &CgroupLimits) -> bool {
        self.usable() && (self.tracks || !self.wanted(limits).is_empty())
    }

    pub(super) fn wanted(&self, limits: &CgroupLimits) -> Vec<Controller> {
        self.controllers.iter().copied().filter(|it| limits.want(*it)).collect()
    }

    pub(super) fn place(&self, directory: PathBuf, found: bool) -> Place {
        Place {
            group: Group { version: self.version, directory },
            controllers: self.controllers.clone(),
            tracks: self.tracks,
            found,
        }
    }
}
