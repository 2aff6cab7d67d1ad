//! Lists the processes of a cgroup and its descendants.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::bases;
use super::files;
use super::group::Group;
use super::instance::InstanceCgroup;

/// Deeper than any legitimate nesting; exceeding it is an error, which is the safe side.
const MAX_DEPTH: usize = 64;

#[derive(Debug, thiserror::Error)]
pub enum ProcessesError {
    #[error("could not list the processes of cgroup `{}`", path.display())]
    List { path: PathBuf, source: io::Error },
}

impl InstanceCgroup {
    /// All processes in any cgroup of the instance including the keeper, ordered by pid. Zombies are not listed, nor
    /// processes of PID namespaces that we cannot see into.
    pub fn processes(&self) -> Result<Vec<u32>, ProcessesError> {
        let mut found = BTreeSet::new();
        for hierarchy_group in &self.groups {
            found.extend(hierarchy_group.group.processes()?);
        }
        Ok(found.into_iter().collect())
    }
}

impl Group {
    pub(super) fn processes(&self) -> Result<BTreeSet<u32>, ProcessesError> {
        let mut found = BTreeSet::new();
        collect(&self.directory, MAX_DEPTH, &mut found)
            .map_err(|source| ProcessesError::List { path: self.directory.clone(), source })?;
        Ok(found)
    }
}

fn collect(group: &Path, depth: usize, found: &mut BTreeSet<u32>) -> io::Result<()> {
    if depth == 0 {
        return Err(io::Error::other("nested too deep"));
    }
    match files::read(&group.join("cgroup.procs")) {
        // A 0 stands for a process of another PID namespace.
        Ok(text) => found.extend(text.lines().filter_map(|it| it.parse::<u32>().ok()).filter(|it| *it != 0)),
        Err(error) if files::is_gone(&error) => return Ok(()),
        // Processes of a threaded cgroup are listed by its parent.
        Err(error) if files::is(&error, Errno::OPNOTSUPP) => {}
        Err(error) => return Err(error),
    }
    for name in bases::subgroups(group)? {
        collect(&group.join(name), depth - 1, found)?;
    }
    Ok(())
}
