//! Detects the cgroup hierarchies of this host and our own cgroup in each, from `/proc/self/mountinfo` and
//! `/proc/self/cgroup`.

use std::path::{Component, Path, PathBuf};

use super::membership::{self, Membership};
use super::mounts::{self, Mount, MountKind};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    V1,
    V2,
}

/// Controllers that we use.
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

    /// CPU time and freezing are built into v2 and need no controller.
    pub(super) fn from_v2(name: &str) -> Option<Controller> {
        match name {
            "memory" => Some(Controller::Memory),
            "pids" => Some(Controller::Pids),
            "cpu" => Some(Controller::Cpu),
            "io" => Some(Controller::Io),
            _ => None,
        }
    }

    /// Name in v2.
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
pub(super) struct DetectedHierarchy {
    pub(super) version: Version,
    /// Filled for v1 only; v2 lists them in a file.
    pub(super) controllers: Vec<Controller>,
    pub(super) mount_point: PathBuf,
    /// Directory of our own cgroup; the mount point if our cgroup is not visible.
    pub(super) own: PathBuf,
    pub(super) read_only: bool,
}

/// One entry for each usable hierarchy: v2 first, then v1 in mount order.
pub(super) fn detect_hierarchies(mountinfo: &str, membership: &str) -> Vec<DetectedHierarchy> {
    let memberships = membership::parse(membership);
    let mut detected: Vec<DetectedHierarchy> = Vec::new();
    for mount in mounts::parse(mountinfo) {
        let Some(found) = detect_in_mount(mount, &memberships) else { continue };
        let same =
            |it: &DetectedHierarchy| it.version == found.version && it.controllers == found.controllers;
        match detected.iter_mut().find(|it| same(it)) {
            // Mounted twice: prefer the writable mount.
            Some(known) if known.read_only && !found.read_only => *known = found,
            Some(_) => {}
            None => detected.push(found),
        }
    }
    detected.sort_by_key(|it| it.version == Version::V1);
    detected
}

fn detect_in_mount(mount: Mount, memberships: &[Membership]) -> Option<DetectedHierarchy> {
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
    Some(DetectedHierarchy {
        version,
        controllers,
        mount_point: mount.mount_point,
        own,
        read_only: mount.read_only,
    })
}

/// The directory of cgroup `path` below the mount. `None` if it is outside of what is mounted, as in a cgroup
/// namespace whose root we have left (`/../x`).
fn below_mount(mount: &Mount, path: &str) -> Option<PathBuf> {
    let inside = Path::new(path).strip_prefix(&mount.root).ok()?;
    let is_plain = |it| matches!(it, Component::Normal(_));
    // Built from components: joining an empty rest would leave a trailing slash.
    inside
        .components()
        .all(is_plain)
        .then(|| mount.mount_point.components().chain(inside.components()).collect())
}

#[cfg(test)]
#[path = "detect/tests.rs"]
mod tests;
