//! Finds the base cgroups of our name. A process creates its base where its own cgroup and permissions allow, so
//! another process may have to search for it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Cgroups;
use super::files;
use super::hierarchy::Hierarchy;

/// Deeper than any host nests its cgroups.
const MAX_DEPTH: usize = 64;

/// A cgroup that could not be read.
#[derive(Debug)]
pub(super) struct BaseLookupError {
    pub(super) path: PathBuf,
    pub(super) source: io::Error,
}

impl Cgroups {
    /// The base that this process creates.
    pub(super) fn own_base(&self, hierarchy: &Hierarchy) -> PathBuf {
        hierarchy.base_parent.join(&*self.base_name)
    }

    /// All directories of the hierarchy that may be the base: one where its path is fixed, else the result of a walk
    /// that takes 10 to 20 µs per cgroup of the host.
    pub(super) fn bases(&self, hierarchy: &Hierarchy) -> Result<Vec<PathBuf>, BaseLookupError> {
        if hierarchy.base_is_fixed() && !self.search_everywhere {
            return Ok(vec![self.own_base(hierarchy)]);
        }
        let mut found = Vec::new();
        self.search(&hierarchy.mount_point, MAX_DEPTH, &mut found)?;
        Ok(found)
    }

    fn search(&self, group: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), BaseLookupError> {
        let failed = |source| BaseLookupError { path: group.to_path_buf(), source };
        if depth == 0 {
            return Err(failed(io::Error::other("nested too deep")));
        }
        for name in subgroups(group).map_err(failed)? {
            let path = group.join(&name);
            if name == *self.base_name {
                found.push(path);
            } else {
                self.search(&path, depth - 1, found)?;
            }
        }
        Ok(())
    }
}

/// Names of the child cgroups; none if the cgroup does not exist. Non-UTF-8 names are not ours.
pub(super) fn subgroups(group: &Path) -> io::Result<Vec<String>> {
    match fs::symlink_metadata(group) {
        // A cgroup has two links plus one per child, so two links save reading its many files.
        Ok(found) if found.is_dir() && found.nlink() == 2 => return Ok(vec![]),
        Err(error) if files::is_gone(&error) => return Ok(vec![]),
        // Reading it reports other errors.
        Ok(_) | Err(_) => {}
    }
    let entries = match fs::read_dir(group) {
        Ok(entries) => entries,
        Err(error) if files::is_gone(&error) => return Ok(vec![]),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in entries {
        match entry {
            // The kernel returns the type with the name, so this is no extra call.
            Ok(entry) if entry.file_type()?.is_dir() => names.extend(entry.file_name().into_string()),
            Ok(_) => {}
            Err(error) if files::is_gone(&error) => return Ok(names),
            Err(error) => return Err(error),
        }
    }
    Ok(names)
}
