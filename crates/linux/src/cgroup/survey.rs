//! The hierarchies of this host and where we are in each, from the two texts of the kernel that tell it.

use std::path::{Component, Path, PathBuf};

use super::membership::{self, Membership};
use super::mounts::{self, Mount, MountKind};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    V1,
    V2,
}

/// What we may want of a hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Controller {
    Memory,
    Pids,
    Cpu,
    Cpuacct,
    Freezer,
    Io,
}

impl Controller {
    pub(super) fn from_v1(name: &str) -> Option<Controller> {
        match name {
            "memory" => Some(Controller::Memory),
            "pids" => Some(Controller::Pids),
            "cpu" => Some(Controller::Cpu),
            "cpuacct" => Some(Controller::Cpuacct),
            "freezer" => Some(Controller::Freezer),
            "blkio" => Some(Controller::Io),
            _ => None,
        }
    }

    /// CPU time and freezing are part of v2 itself.
    pub(super) fn from_v2(name: &str) -> Option<Controller> {
        match name {
            "memory" => Some(Controller::Memory),
            "pids" => Some(Controller::Pids),
            "cpu" => Some(Controller::Cpu),
            "io" => Some(Controller::Io),
            _ => None,
        }
    }

    /// Its name in v2.
    pub(super) fn v2_name(self) -> &'static str {
        match self {
            Controller::Memory => "memory",
            Controller::Pids => "pids",
            Controller::Cpu => "cpu",
            Controller::Cpuacct => "cpuacct",
            Controller::Freezer => "freezer",
            Controller::Io => "io",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Surveyed {
    pub(super) version: Version,
    /// Known here for v1 only; v2 says it in a file.
    pub(super) controllers: Vec<Controller>,
    pub(super) mount_point: PathBuf,
    /// The directory of our own group; the mount point where our group is not to be seen.
    pub(super) own: PathBuf,
    pub(super) read_only: bool,
}

/// One entry for each hierarchy that can be of use: v2 first, then v1 in the order of the mounts.
pub(super) fn survey(mountinfo: &str, membership: &str) -> Vec<Surveyed> {
    let memberships = membership::parse(membership);
    let mut surveyed: Vec<Surveyed> = Vec::new();
    for mount in mounts::parse(mountinfo) {
        let Some(found) = survey_mount(mount, &memberships) else { continue };
        let same = |it: &Surveyed| it.version == found.version && it.controllers == found.controllers;
        match surveyed.iter_mut().find(|it| same(it)) {
            // Mounted twice: the one that can be written to serves better.
            Some(known) if known.read_only && !found.read_only => *known = found,
            Some(_) => {}
            None => surveyed.push(found),
        }
    }
    surveyed.sort_by_key(|it| it.version == Version::V1);
    surveyed
}

fn survey_mount(mount: Mount, memberships: &[Membership]) -> Option<Surveyed> {
    let (version, controllers, membership) = match &mount.kind {
        MountKind::V2 => (Version::V2, Vec::new(), memberships.iter().find(|it| it.is_v2())),
        MountKind::V1 { options } => {
            let controllers: Vec<_> = options.iter().filter_map(|name| Controller::from_v1(name)).collect();
            if controllers.is_empty() {
                return None;
            }
            let ours = |it: &&Membership| it.controllers.iter().any(|name| options.contains(name));
            (Version::V1, controllers, memberships.iter().find(ours))
        }
    };
    let own = membership.and_then(|it| below_mount(&mount, &it.path)).unwrap_or(mount.mount_point.clone());
    Some(Surveyed { version, controllers, mount_point: mount.mount_point, own, read_only: mount.read_only })
}

/// Where the group `path` is to be seen below the mount. Nowhere if it is outside of what is mounted, as from
/// within a cgroup namespace whose root we have left (`/../x`).
fn below_mount(mount: &Mount, path: &str) -> Option<PathBuf> {
    let inside = Path::new(path).strip_prefix(&mount.root).ok()?;
    let is_plain = |it| matches!(it, Component::Normal(_));
    // Put together by parts: joining an empty rest would leave a slash at the end.
    inside
        .components()
        .all(is_plain)
        .then(|| mount.mount_point.components().chain(inside.components()).collect())
}

#[cfg(test)]
#[path = "survey/tests.rs"]
mod tests;
