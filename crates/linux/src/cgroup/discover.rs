//! Finding bodies by the names of their groups, and what is left of one.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;

use super::Cgroups;
use super::bases::{self, Unseen};
use super::body::BodyCgroup;
use super::files;
use super::hierarchy::Hierarchy;
use super::name::{self, BadName};

#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    #[error("could not look at cgroup `{}`", path.display())]
    Look { path: PathBuf, source: io::Error },
}

#[derive(Debug, thiserror::Error)]
pub enum LookError {
    #[error(transparent)]
    Name(#[from] BadName),
    #[error("could not look at cgroup `{}`", path.display())]
    Look { path: PathBuf, source: io::Error },
}

impl Cgroups {
    /// The names of all bodies that have a group in any hierarchy, half-made and half-removed ones too, in order.
    pub fn discover(&self) -> Result<Vec<String>, DiscoverError> {
        let failed = |Unseen { path, source }| DiscoverError::Look { path, source };
        let mut names = BTreeSet::new();
        for hierarchy in self.hierarchies.iter() {
            for base in self.bases(hierarchy).map_err(failed)? {
                let found = bases::subgroups(&base);
                names.extend(found.map_err(|source| failed(Unseen { path: base, source }))?);
            }
        }
        Ok(names.into_iter().collect())
    }

    /// The directories of a body that exist, at every place where it may have any. None at all proves that the body
    /// has no groups.
    pub fn look(&self, name: &str) -> Result<Vec<PathBuf>, LookError> {
        name::check(name)?;
        let mut found = Vec::new();
        for hierarchy in self.hierarchies.iter() {
            let existing = self.existing(hierarchy, name);
            found.extend(existing.map_err(|Unseen { path, source }| LookError::Look { path, source })?);
        }
        Ok(found)
    }

    pub(super) fn existing(&self, hierarchy: &Hierarchy, name: &str) -> Result<Vec<PathBuf>, Unseen> {
        let mut found = Vec::new();
        for base in self.bases(hierarchy)? {
            let path = base.join(name);
            if exists(&path).map_err(|source| Unseen { path: path.clone(), source })? {
                found.push(path);
            }
        }
        Ok(found)
    }
}

impl BodyCgroup {
    /// Those of exactly these groups that exist. Cheaper than [`Cgroups::look`], which also finds what others made.
    pub fn look(&self) -> Result<Vec<PathBuf>, LookError> {
        let mut found = Vec::new();
        for place in &self.places {
            let path = place.group.directory.clone();
            match exists(&path) {
                Ok(true) => found.push(path),
                Ok(false) => {}
                Err(source) => return Err(LookError::Look { path, source }),
            }
        }
        Ok(found)
    }
}

/// Only the answer that it is not there means that it is not there.
pub(super) fn exists(path: &std::path::Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if files::is_gone(&error) => Ok(false),
        Err(error) => Err(error),
    }
}
