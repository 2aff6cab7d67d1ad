//! Finds instances by the names of their cgroups, and what is left of one.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;

use super::Cgroups;
use super::bases::{self, BaseLookupError};
use super::files;
use super::hierarchy::Hierarchy;
use super::instance::InstanceCgroup;
use super::name::{self, BadName};

#[derive(Debug, thiserror::Error)]
pub enum DiscoverCgroupsError {
    #[error("could not read cgroup `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
}

#[derive(Debug, thiserror::Error)]
pub enum FindCgroupError {
    #[error(transparent)]
    Name(#[from] BadName),
    #[error("could not read cgroup `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
}

impl Cgroups {
    /// The names of all instances that have a cgroup in any hierarchy, also partly created or removed ones, sorted.
    pub fn discover(&self) -> Result<Vec<String>, DiscoverCgroupsError> {
        let failed = |BaseLookupError { path, source }| DiscoverCgroupsError::Read { path, source };
        let mut names = BTreeSet::new();
        for hierarchy in self.hierarchies.iter() {
            for base in self.bases(hierarchy).map_err(failed)? {
                let found = bases::subgroups(&base);
                names.extend(found.map_err(|source| failed(BaseLookupError { path: base, source }))?);
            }
        }
        Ok(names.into_iter().collect())
    }

    /// The existing cgroup directories of an instance, wherever it may have any. An empty list proves that it has no
    /// cgroups.
    pub fn find(&self, name: &str) -> Result<Vec<PathBuf>, FindCgroupError> {
        name::check(name)?;
        let mut found = Vec::new();
        for hierarchy in self.hierarchies.iter() {
            let existing = self.existing_in(hierarchy, name);
            found.extend(
                existing
                    .map_err(|BaseLookupError { path, source }| FindCgroupError::Read { path, source })?,
            );
        }
        Ok(found)
    }

    pub(super) fn existing_in(
        &self,
        hierarchy: &Hierarchy,
        name: &str,
    ) -> Result<Vec<PathBuf>, BaseLookupError> {
        let mut found = Vec::new();
        for base in self.bases(hierarchy)? {
            let path = base.join(name);
            if exists(&path).map_err(|source| BaseLookupError { path: path.clone(), source })? {
                found.push(path);
            }
        }
        Ok(found)
    }
}

impl InstanceCgroup {
    /// Those of exactly these cgroups that exist. Cheaper than [`Cgroups::find`], which also finds cgroups created by
    /// other processes.
    pub fn existing(&self) -> Result<Vec<PathBuf>, FindCgroupError> {
        let mut found = Vec::new();
        for hierarchy_group in &self.groups {
            let path = hierarchy_group.group.directory.clone();
            match exists(&path) {
                Ok(true) => found.push(path),
                Ok(false) => {}
                Err(source) => return Err(FindCgroupError::Read { path, source }),
            }
        }
        Ok(found)
    }
}

/// Only `ENOENT` and `ENODEV` mean that it does not exist; other errors are returned.
pub(super) fn exists(path: &std::path::Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if files::is_gone(&error) => Ok(false),
        Err(error) => Err(error),
    }
}
