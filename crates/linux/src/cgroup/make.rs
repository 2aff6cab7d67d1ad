//! Making the groups of a body.
//!
//! What costs: each directory 15 to 40 µs, each setting 5 µs (open, write, close), removal about as much again.
//! So there are no groups in hierarchies of which nothing is asked, and no settings that are the kernel's defaults.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::Cgroups;
use super::bases::Unseen;
use super::body::{BodyCgroup, Place};
use super::files;
use super::group::Group;
use super::hierarchy::Hierarchy;
use super::limits::{CgroupLimits, Setting};
use super::name::{self, BadName};
use super::survey::{Controller, Version};

/// How often the base may be taken away under our hands, by the removal of another process's last body.
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
    #[error("could not look at cgroup `{}`", path.display())]
    Look { path: PathBuf, source: io::Error },
    #[error("could not remove cgroup `{}`", path.display())]
    RemoveDirectory { path: PathBuf, source: io::Error },
}

impl Cgroups {
    /// Makes the groups of a body, with limits on its work and none on its keeper. Making again what exists
    /// succeeds and sets the limits anew. After an error the body may be half-made: remove it.
    pub fn make(&self, name: &str, limits: &CgroupLimits) -> Result<BodyCgroup, MakeError> {
        name::check(name)?;
        let mut places = Vec::new();
        for hierarchy in self.hierarchies.iter().filter(|it| it.is_chosen(limits)) {
            places.push(self.make_place(hierarchy, hierarchy.wanted(limits), name, limits)?);
        }
        Ok(BodyCgroup::new(name, places))
    }

    fn make_place(
        &self,
        hierarchy: &Hierarchy,
        controllers: Vec<Controller>,
        name: &str,
        limits: &CgroupLimits,
    ) -> Result<Place, MakeError> {
        let directory = self.home_base(hierarchy).join(name);
        self.make_in_base(hierarchy, &directory)?;
        let group = Group { version: hierarchy.version, directory };
        if group.version == Version::V2 {
            hand_on(&group.directory, &controllers)?;
        }
        let place = Place { group, controllers, tracks: hierarchy.tracks, found: true };
        if let Some(keeper) = place.keeper() {
            make_directory(&keeper.directory)?;
        }
        let work = place.work();
        make_directory(&work.directory)?;
        for controller in &place.controllers {
            set_all(&work.directory, &limits.settings(work.version, *controller))?;
        }
        Ok(place)
    }

    /// The base is there but for the first time, so it is only made when it turns out to be missing.
    fn make_in_base(&self, hierarchy: &Hierarchy, directory: &Path) -> Result<(), MakeError> {
        for _ in 1..ATTEMPTS {
            match make_directory(directory) {
                Err(MakeError::MakeDirectory { source, .. }) if files::is_gone(&source) => {
                    // Also when it was removed at once: then the next attempt makes it again.
                    self.make_base(hierarchy)?;
                }
                done => return done,
            }
        }
        make_directory(directory)
    }

    fn make_base(&self, hierarchy: &Hierarchy) -> Result<(), MakeError> {
        let base = self.home_base(hierarchy);
        if hierarchy.version == Version::V2 {
            hand_on(&hierarchy.home, &missing_in(&hierarchy.home, &hierarchy.controllers)?)?;
        }
        make_directory(&base)?;
        let prepared = match hierarchy.version {
            Version::V2 => hand_on(&base, &hierarchy.controllers),
            Version::V1 if hierarchy.has(Controller::Memory) => count_children_too(&base),
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

    /// Removes all bases of our name that hold no body. What holds one stays, and that is no error.
    pub fn remove_empty_bases(&self) -> Result<(), RemoveBaseError> {
        for hierarchy in self.hierarchies.iter().filter(|it| it.usable()) {
            let bases = self.bases(hierarchy);
            for path in bases.map_err(|Unseen { path, source }| RemoveBaseError::Look { path, source })? {
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

/// Makes a group. One that is there is as good.
pub(super) fn make_directory(path: &Path) -> Result<(), MakeError> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        done => done.map_err(|source| MakeError::MakeDirectory { path: path.to_path_buf(), source }),
    }
}

/// Gives controllers to the groups in a v2 group.
fn hand_on(group: &Path, controllers: &[Controller]) -> Result<(), MakeError> {
    if controllers.is_empty() {
        return Ok(());
    }
    let value: Vec<String> = controllers.iter().map(|it| format!("+{}", it.v2_name())).collect();
    set(&group.join("cgroup.subtree_control"), &value.join(" "))
}

/// A home that hands on all we need already is not written to: we may have no right to.
fn missing_in(home: &Path, controllers: &[Controller]) -> Result<Vec<Controller>, MakeError> {
    let path = home.join("cgroup.subtree_control");
    let text = files::read(&path).map_err(|source| MakeError::Read { path, source })?;
    let is_missing = |it: &&Controller| text.split_whitespace().all(|name| name != it.v2_name());
    Ok(controllers.iter().filter(is_missing).copied().collect())
}

/// Before Linux 5.11 a v1 memory group limited its children only if told so.
fn count_children_too(base: &Path) -> Result<(), MakeError> {
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
            // In v1, memory may not get above memory with swap: where both grow, the latter goes first.
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
