//! Creates the cgroups of an instance.
//!
//! Costs: 15 to 40 µs per directory, 5 µs per setting (open, write, close), about as much again for removal. So
//! hierarchies that no limit needs get no cgroup, and kernel defaults are not written.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::Cgroups;
use super::bases::BaseLookupError;
use super::detect::{Controller, Version};
use super::files;
use super::group::Group;
use super::hierarchy::Hierarchy;
use super::instance::{HierarchyGroup, InstanceCgroup};
use super::limits::{CgroupLimits, Setting};
use super::name::{self, BadName};

/// How often another process may remove the base under us with its last instance.
const ATTEMPTS: usize = 16;

#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    #[error(transparent)]
    Name(#[from] BadName),
    #[error("could not make cgroup `{}`", path.display())]
    MakeDirectory { path: PathBuf, source: io::Error },
    #[error("could not set `{}` to `{value}`", path.display())]
    Set { path: PathBuf, value: String, source: io::Error },
    #[error("could not read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
}

#[derive(Debug, thiserror::Error)]
pub enum RemoveBaseError {
    #[error("could not read cgroup `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("could not remove cgroup `{}`", path.display())]
    RemoveDirectory { path: PathBuf, source: io::Error },
}

impl Cgroups {
    /// Creates the cgroups of an instance, with limits on its workload and none on its keeper. Existing cgroups are
    /// reused and get the new limits. After an error the instance may be partly created: remove it.
    pub fn make(&self, name: &str, limits: &CgroupLimits) -> Result<InstanceCgroup, MakeError> {
        name::check(name)?;
        let mut groups = Vec::new();
        for hierarchy in self.hierarchies.iter().filter(|it| it.is_needed_for(limits)) {
            groups.push(self.make_group(hierarchy, hierarchy.controllers_for(limits), name, limits)?);
        }
        Ok(InstanceCgroup::new(name, groups))
    }

    fn make_group(
        &self,
        hierarchy: &Hierarchy,
        controllers: Vec<Controller>,
        name: &str,
        limits: &CgroupLimits,
    ) -> Result<HierarchyGroup, MakeError> {
        let directory = self.own_base(hierarchy).join(name);
        self.make_in_base(hierarchy, &directory)?;
        let group = Group { version: hierarchy.version, directory };
        if group.version == Version::V2 {
            enable_controllers(&group.directory, &controllers)?;
        }
        let made = HierarchyGroup { group, controllers, tracks: hierarchy.tracks, found: true };
        if let Some(keeper) = made.keeper() {
            make_directory(&keeper.directory)?;
        }
        let work = made.work();
        make_directory(&work.directory)?;
        for controller in &made.controllers {
            set_all(&work.directory, &limits.settings(work.version, *controller))?;
        }
        Ok(made)
    }

    /// The base exists except for the first instance, so it is created only when it turns out to be missing.
    fn make_in_base(&self, hierarchy: &Hierarchy, directory: &Path) -> Result<(), MakeError> {
        for _ in 1..ATTEMPTS {
            match make_directory(directory) {
                Err(MakeError::MakeDirectory { source, .. }) if files::is_gone(&source) => {
                    // If it is removed again at once, the next attempt creates it again.
                    self.make_base(hierarchy)?;
                }
                done => return done,
            }
        }
        make_directory(directory)
    }

    fn make_base(&self, hierarchy: &Hierarchy) -> Result<(), MakeError> {
        let base = self.own_base(hierarchy);
        if hierarchy.version == Version::V2 {
            enable_controllers(
                &hierarchy.base_parent,
                &missing_in(&hierarchy.base_parent, &hierarchy.controllers)?,
            )?;
        }
        make_directory(&base)?;
        let prepared = match hierarchy.version {
            Version::V2 => enable_controllers(&base, &hierarchy.controllers),
            Version::V1 if hierarchy.has(Controller::Memory) => enable_hierarchical_memory(&base),
            Version::V1 => Ok(()),
        };
        match prepared {
            Err(MakeError::Set { source, .. } | MakeError::Read { source, .. })
                if files::is_gone(&source) =>
            {
                Ok(())
            }
            done => done,
        }
    }

    /// Removes all bases of our name that hold no instance. A base in use stays, which is no error.
    pub fn remove_empty_bases(&self) -> Result<(), RemoveBaseError> {
        for hierarchy in self.hierarchies.iter().filter(|it| it.usable()) {
            let bases = self.bases(hierarchy);
            for path in
                bases.map_err(|BaseLookupError { path, source }| RemoveBaseError::Read { path, source })?
            {
                remove_empty(path)?;
            }
        }
        Ok(())
    }
}

pub(super) fn remove_empty(path: PathBuf) -> Result<(), RemoveBaseError> {
    match fs::remove_dir(&path) {
        Err(error) if files::is_gone(&error) || files::is(&error, Errno::BUSY) => Ok(()),
        done => done.map_err(|source| RemoveBaseError::RemoveDirectory { path, source }),
    }
}

/// Creates a cgroup. An existing one is no error.
pub(super) fn make_directory(path: &Path) -> Result<(), MakeError> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        done => done.map_err(|source| MakeError::MakeDirectory { path: path.to_path_buf(), source }),
    }
}

/// Enables controllers for the children of a v2 cgroup.
fn enable_controllers(group: &Path, controllers: &[Controller]) -> Result<(), MakeError> {
    if controllers.is_empty() {
        return Ok(());
    }
    let value: Vec<String> = controllers.iter().map(|it| format!("+{}", it.v2_name())).collect();
    set(&group.join("cgroup.subtree_control"), &value.join(" "))
}

/// Controllers that are not enabled yet. If none is missing nothing is written: we may not be permitted to.
fn missing_in(home: &Path, controllers: &[Controller]) -> Result<Vec<Controller>, MakeError> {
    let path = home.join("cgroup.subtree_control");
    let text = files::read(&path).map_err(|source| MakeError::Read { path, source })?;
    let is_missing = |it: &&Controller| text.split_whitespace().all(|name| name != it.v2_name());
    Ok(controllers.iter().filter(is_missing).copied().collect())
}

/// Before Linux 5.11 a v1 memory cgroup limited its children only on request.
fn enable_hierarchical_memory(base: &Path) -> Result<(), MakeError> {
    let path = base.join("memory.use_hierarchy");
    match files::read(&path) {
        Ok(text) if text.trim() == "0" => set(&path, "1"),
        Ok(_) => Ok(()),
        Err(error) if files::is_gone(&error) => Ok(()),
        Err(source) => Err(MakeError::Read { path, source }),
    }
}

fn set_all(group: &Path, settings: &[Setting]) -> Result<(), MakeError> {
    let mut later = Vec::new();
    for setting in settings {
        match set_one(group, setting) {
            // In v1 the memory limit may not exceed memory plus swap: when both grow, the latter must be written
            // first.
            Err(MakeError::Set { source, .. }) if files::is(&source, Errno::INVAL) && later.is_empty() => {
                later.push(setting);
            }
            done => done?,
        }
    }
    later.into_iter().try_for_each(|setting| set_one(group, setting))
}

fn set_one(group: &Path, setting: &Setting) -> Result<(), MakeError> {
    match set(&group.join(setting.file), &setting.value) {
        Err(MakeError::Set { source, .. }) if setting.may_be_missing && files::is_gone(&source) => Ok(()),
        done => done,
    }
}

fn set(path: &Path, value: &str) -> Result<(), MakeError> {
    let failed = |source| MakeError::Set { path: path.to_path_buf(), value: value.to_owned(), source };
    files::write(path, value).map_err(failed)
}

#[cfg(test)]
#[path = "make/tests.rs"]
mod tests;
