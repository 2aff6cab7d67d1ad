//! The groups of one body, in every hierarchy where it has any.

use std::io;
use std::path::PathBuf;

use super::Cgroups;
use super::bases::Unseen;
use super::group::Group;
use super::name::{self, BadName};
use super::survey::{Controller, Version};

pub(super) const KEEPER: &str = "keeper";
pub(super) const WORK: &str = "work";

/// The groups of one body: `keeper` for its process 1, out of reach of limits and of what ends the work, and
/// `work` for everything else; where neither is needed, only the one that has both in it, for the work alone. All it holds is names, so any process can have it, before and after the body is there.
#[derive(Debug, Clone)]
pub struct BodyCgroup {
    name: String,
    pub(super) places: Vec<Place>,
}

/// A body's group in one hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) group: Group,
    pub(super) controllers: Vec<Controller>,
    pub(super) tracks: bool,
    /// Known to be there, and not only where it would be.
    pub(super) found: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Name(#[from] BadName),
    #[error("could not look at cgroup `{}`", path.display())]
    Look { path: PathBuf, source: io::Error },
}

impl Cgroups {
    /// The groups of a body by its name alone, whoever made them and however much of them there is.
    pub fn open(&self, name: &str) -> Result<BodyCgroup, OpenError> {
        name::check(name)?;
        let mut places = Vec::new();
        for hierarchy in self.hierarchies.iter() {
            let mut directories = self
                .existing(hierarchy, name)
                .map_err(|Unseen { path, source }| OpenError::Look { path, source })?;
            let found = !directories.is_empty();
            if !found && hierarchy.usable() {
                // In case that it is being made at this moment.
                directories.push(self.home_base(hierarchy).join(name));
            }
            places.extend(directories.into_iter().map(|directory| hierarchy.place(directory, found)));
        }
        Ok(BodyCgroup::new(name, places))
    }
}

impl BodyCgroup {
    pub(super) fn new(name: &str, places: Vec<Place>) -> BodyCgroup {
        BodyCgroup { name: name.to_owned(), places }
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The group by which the body's processes are found and ended. None where no hierarchy can be used.
    pub(super) fn tracked(&self) -> Option<&Group> {
        self.all_tracked().next()
    }

    /// Whether its groups know which processes are its own.
    pub(crate) fn tracks(&self) -> bool {
        self.tracked().is_some()
    }

    /// More than one only where two processes made the same body at different places.
    pub(super) fn all_tracked(&self) -> impl Iterator<Item = &Group> {
        self.places.iter().filter(|it| it.tracks).map(|it| &it.group)
    }

    /// The group of the work in the hierarchy that has the controller.
    pub(super) fn work_with(&self, controller: Controller) -> Option<Group> {
        self.places.iter().find(|it| it.controllers.contains(&controller)).map(Place::work)
    }

    pub(super) fn v2_work(&self) -> Option<Group> {
        let place = self.places.iter().find(|it| it.group.version == Version::V2)?;
        Some(place.work())
    }
}

impl Place {
    /// Where limits hold. In v1, where the body's processes are found and ended in another hierarchy, that is the
    /// body's group itself. That is worth it: a memory group costs the kernel some bytes for each filesystem on the host,
    /// 100 KiB beside a thousand sandboxes, and as many steps when it goes.
    pub(super) fn work(&self) -> Group {
        match self.group.version {
            Version::V1 if !self.tracks => self.group.clone(),
            Version::V1 | Version::V2 => self.group.child(WORK),
        }
    }

    /// A keeper needs a group where it is ended with its body, and in v2 where memory is handed on. Elsewhere it stays
    /// where it was started, out of reach just as well, and the group and the joining are saved.
    pub(super) fn keeper(&self) -> Option<Group> {
        let is_handed_on =
            self.group.version == Version::V2 && self.controllers.contains(&Controller::Memory);
        (self.tracks || is_handed_on).then(|| self.group.child(KEEPER))
    }
}
