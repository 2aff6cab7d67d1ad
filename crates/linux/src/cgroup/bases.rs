//! Where bases of our name are. A process makes its base where its own group and rights allow, so another
//! process may have to look elsewhere for it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Cgroups;
use super::files;
use super::hierarchy::Hierarchy;

/// Deeper than any host nests its groups.
const DEEPEST: usize = 64;

/// A directory that could not be looked at.
#[derive(Debug)]
pub(super) struct Unseen {
    pub(super) path: PathBuf,
    pub(super) source: io::Error,
}

impl Cgroups {
    /// Where this process makes its own base.
    pub(super) fn home_base(&self, hierarchy: &Hierarchy) -> PathBuf {
        hierarchy.home.join(&*self.base_name)
    }

    /// Every place of the hierarchy where the base may be. Nothing but one name where its place is fixed; else a
    /// walk, 10 to 20 µs for each group of the host.
    pub(super) fn bases(&self, hierarchy: &Hierarchy) -> Result<Vec<PathBuf>, Unseen> {
        if hierarchy.home_is_fixed() && !self.everywhere {
            return Ok(vec![self.home_base(hierarchy)]);
        }
        let mut found = Vec::new();
        self.search(&hierarchy.mount_point, DEEPEST, &mut found)?;
        Ok(found)
    }

    fn search(&self, group: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), Unseen> {
        let unseen = |source| Unseen { path: group.to_path_buf(), source };
        if depth == 0 {
            return Err(unseen(io::Error::other("nested too deep")));
        }
        for name in subgroups(group).map_err(unseen)? {
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

/// Names of the groups in a group; none if it is not there. A name that is not UTF-8 is none that we gave.
pub(super) fn subgroups(group: &Path) -> io::Result<Vec<String>> {
    match fs::symlink_metadata(group) {
        // A group has a link for each group in it, beside its own two, and there is no need to read its many files.
        Ok(found) if found.is_dir() && found.nlink() == 2 => return Ok(vec![]),
        Err(error) if files::is_gone(&error) => return Ok(vec![]),
        // Reading it says what else is the matter.
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
            // The kernel gives the kind along with the name, so this is no further call.
            Ok(entry) if entry.file_type()?.is_dir() => names.extend(entry.file_name().into_string()),
            Ok(_) => {}
            Err(error) if files::is_gone(&error) => return Ok(names),
            Err(error) => return Err(error),
        }
    }
    Ok(names)
}
