//! What the cgroups of this host can enforce, in words for its operator.

use super::detect::{Controller, Version};
use super::hierarchy::{Hierarchy, Obstacle};

/// One entry for each feature that needs cgroups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Abilities {
    /// Kill all processes of an instance or an execution as a whole.
    pub kill: Ability,
    pub freeze: Ability,
    pub memory: Ability,
    pub pids: Ability,
    /// Limit CPU share and quota.
    pub cpu: Ability,
    /// Count CPU time.
    pub cpu_time: Ability,
    /// Count bytes read and written.
    pub io: Ability,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ability {
    Enforced { by: String },
    Unavailable { why: String, fix: String },
}

impl Ability {
    #[must_use]
    pub fn is_enforced(&self) -> bool {
        matches!(self, Ability::Enforced { .. })
    }
}

pub(super) fn of(hierarchies: &[Hierarchy]) -> Abilities {
    Abilities {
        kill: kill(hierarchies),
        freeze: built_in(hierarchies, Controller::Freezer, "cgroup.freeze"),
        memory: controller(hierarchies, Controller::Memory),
        pids: controller(hierarchies, Controller::Pids),
        cpu: controller(hierarchies, Controller::Cpu),
        cpu_time: built_in(hierarchies, Controller::Cpuacct, "cpu.stat"),
        io: controller(hierarchies, Controller::Io),
    }
}

fn kill(hierarchies: &[Hierarchy]) -> Ability {
    match hierarchies.iter().find(|it| it.tracks) {
        Some(it) if it.version == Version::V2 && kernel_has_kill() => enforced(it, "cgroup.kill"),
        Some(it) if it.has(Controller::Freezer) || it.version == Version::V2 => {
            enforced(it, "SIGKILL to each process of a frozen group")
        }
        Some(it) => enforced(it, "SIGKILL to each process, until none is left"),
        None => unavailable(hierarchies.iter().find_map(|it| it.obstacle.clone())),
    }
}

/// `cgroup.kill` exists since Linux 5.14; the root cgroup has no such file to test for. This is for the report only:
/// the kill itself tries and falls back.
fn kernel_has_kill() -> bool {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy();
    let mut numbers = release.split(['.', '-']).map_while(|it| it.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(5), Some(14))
}

/// A feature that v2 has built in and v1 has as a controller.
fn built_in(hierarchies: &[Hierarchy], in_v1: Controller, file: &str) -> Ability {
    let v2 = hierarchies.iter().find(|it| it.version == Version::V2);
    if let Some(it) = v2.filter(|it| it.usable()) {
        return enforced(it, file);
    }
    match (controller(hierarchies, in_v1), v2.and_then(|it| it.obstacle.clone())) {
        // A present but unusable hierarchy is easier to fix than a missing one, so report that.
        (Ability::Unavailable { .. }, Some(obstacle)) => unavailable(Some(obstacle)),
        (ability, _) => ability,
    }
}

fn controller(hierarchies: &[Hierarchy], wanted: Controller) -> Ability {
    if let Some(it) = hierarchies.iter().find(|it| it.usable() && it.has(wanted)) {
        return enforced(it, &format!("controller {}", wanted.v2_name()));
    }
    let withheld =
        |it: &Hierarchy| it.withheld.iter().find(|(it, _)| *it == wanted).map(|(_, it)| it.clone());
    let blocked = |it: &Hierarchy| it.obstacle.clone().filter(|_| it.has(wanted) || withheld(it).is_some());
    unavailable(hierarchies.iter().find_map(|it| blocked(it).or_else(|| withheld(it))))
}

fn enforced(hierarchy: &Hierarchy, means: &str) -> Ability {
    let version = match hierarchy.version {
        Version::V1 => "v1",
        Version::V2 => "v2",
    };
    Ability::Enforced { by: format!("{means} of cgroup {version} at `{}`", hierarchy.base_parent.display()) }
}

fn unavailable(obstacle: Option<Obstacle>) -> Ability {
    match obstacle {
        Some(Obstacle { why, fix }) => Ability::Unavailable { why, fix },
        None => Ability::Unavailable {
            why: "this kernel has no such controller, or it is not mounted".to_owned(),
            fix: "mount cgroup v2 at /sys/fs/cgroup, and boot without cgroup_disable=".to_owned(),
        },
    }
}
