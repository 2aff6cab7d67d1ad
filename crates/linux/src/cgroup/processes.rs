//! The processes in a group and in all groups below it.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::bases;
use super::body::BodyCgroup;
use super::files;
use super::group::Group;

/// Nobody nests deeper with good intentions, and the error is on the safe side.
const DEEPEST: usize = 64;

#[derive(Debug, thiserror::Error)]
pub enum ProcessesError {
    #[error("could not list the processes of cgroup `{}`", path.display())]
    List { path: PathBuf, source: io::Error },
}

impl BodyCgroup {
    /// All processes in any group of the body, the keeper too, in the order of their ids. Zombies are none. Those of
    /// a process id namespace that we cannot see into are left out.
    pub fn processes(&self) -> Result<Vec<u32>, ProcessesError> {
        let mut found = BTreeSet::new();
        for place in &self.places {
            found.extend(place.group.processes()?);
        }
        Ok(found.into_iter().collect())
    }
}

impl Group {
    pub(super) fn processes(&self) -> Result<BTreeSet<u32>, ProcessesError> {
        let mut found = BTreeSet::new();
        collect(&self.directory, DEEPEST, &mut found)
            .map_err(|source| ProcessesError::List { path: self.directory.clone(), source })?;
        Ok(found)
    }
}

fn collect(group: &Path, depth: usize, found: &mut BTreeSet<u32>) -> io::Result<()> {
    if depth == 0 {
        return Err(io::Error::other("nested too deep"));
    }
    match files::read(&group.join("cgroup.procs")) {
        // A zero stands for a process of another process id namespace.
        Ok(text) => found.extend(text.lines().filter_map(|it| it.parse::<u32>().ok()).filter(|it| *it != 0)),
        Err(error) if files::is_gone(&error) => return Ok(()),
        // The processes of a threaded group are listed by the group above.
        Err(error) if files::is(&error, Errno::OPNOTSUPP) => {}
        Err(error) => return Err(error),
    }
    for name in bases::subgroups(group)? {
        collect(&group.join(name), depth - 1, found)?;
    }
    Ok(())
}
