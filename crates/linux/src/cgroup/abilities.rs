//! What the groups of this host can enforce, in words for the owner of the machine.

use super::hierarchy::{Hierarchy, Obstacle};
use super::survey::{Controller, Version};

/// One entry for each thing that groups are asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Abilities {
    /// To end all processes of a body or an execution as a whole.
    pub kill: Ability,
    pub freeze: Ability,
    pub memory: Ability,
    pub pids: Ability,
    /// To limit CPU share and quota.
    pub cpu: Ability,
    /// To count CPU time.
    pub cpu_time: Ability,
    /// To count bytes read and written.
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

/// `cgroup.kill` came with Linux 5.14. The root group has no such file that could be looked for. Killing itself
/// does not rely on this: it tries.
fn kernel_has_kill() -> bool {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy();
    let mut numbers = release.split(['.', '-']).map_while(|it| it.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(5), Some(14))
}

/// What v2 has without a controller, and v1 by a controller.
fn built_in(hierarchies: &[Hierarchy], in_v1: Controller, file: &str) -> Ability {
    let v2 = hierarchies.iter().find(|it| it.version == Version::V2);
    if let Some(it) = v2.filter(|it| it.usable()) {
        return enforced(it, file);
    }
    match (controller(hierarchies, in_v1), v2.and_then(|it| it.obstacle.clone())) {
        // What is there but barred is easier to come by than what is not there.
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
    let barred = |it: &Hierarchy| it.obstacle.clone().filter(|_| it.has(wanted) || withheld(it).is_some());
    unavailable(hierarchies.iter().find_map(|it| barred(it).or_else(|| withheld(it))))
}

fn enforced(hierarchy: &Hierarchy, means: &str) -> Ability {
    let version = match hierarchy.version {
        Version::V1 => "v1",
        Version::V2 => "v2",
    };
    Ability::Enforced { by: format!("{means} of cgroup {version} at `{}`", hierarchy.home.display()) }
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
