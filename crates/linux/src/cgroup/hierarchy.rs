//! A hierarchy as this process may use it: where its base goes, and which controllers reach the groups below.

use std::path::{Path, PathBuf};

use super::files;
use super::survey::{Controller, Surveyed, Version};

#[derive(Debug, Clone)]
pub(super) struct Hierarchy {
    pub(super) version: Version,
    pub(super) mount_point: PathBuf,
    /// The group in which the base is made.
    pub(super) home: PathBuf,
    /// Those that groups below the base can have.
    pub(super) controllers: Vec<Controller>,
    /// Those that are there but not for us.
    pub(super) withheld: Vec<(Controller, Obstacle)>,
    /// Set where nothing can be made at all.
    pub(super) obstacle: Option<Obstacle>,
    /// The hierarchy by which processes are found and ended; one at most.
    pub(super) tracks: bool,
}

/// What stands in the way, and what the owner of the machine can do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Obstacle {
    pub(super) why: String,
    pub(super) fix: String,
}

impl Hierarchy {
    pub(super) fn usable(&self) -> bool {
        self.obstacle.is_none()
    }

    pub(super) fn has(&self, controller: Controller) -> bool {
        self.controllers.contains(&controller)
    }

    /// Whether every process with our rights makes its base at the same place, whatever group it is in itself.
    pub(super) fn home_is_fixed(&self) -> bool {
        self.version == Version::V2 && self.home == self.mount_point
    }
}

pub(super) fn settle(surveyed: Vec<Surveyed>) -> Vec<Hierarchy> {
    let mut hierarchies: Vec<Hierarchy> = surveyed.into_iter().map(settle_one).collect();
    if let Some(tracker) = choose_tracker(&hierarchies) {
        hierarchies[tracker].tracks = true;
        if hierarchies[tracker].version == Version::V2 {
            hierarchies.retain(|it| it.version == Version::V2 || gives_more_than_v2(it));
        }
    }
    hierarchies
}

/// v2 ends a whole tree in one call, however fast it forks. In v1 a freezer keeps a tree still while it is ended;
/// without one, any hierarchy will do to find its processes.
fn choose_tracker(hierarchies: &[Hierarchy]) -> Option<usize> {
    let first = |test: &dyn Fn(&Hierarchy) -> bool| hierarchies.iter().position(|it| it.usable() && test(it));
    first(&|it| it.version == Version::V2)
        .or_else(|| first(&|it| it.has(Controller::Freezer)))
        .or_else(|| first(&|it| it.has(Controller::Pids)))
        .or_else(|| first(&|_| true))
}

/// CPU time and freezing come with v2, even where it has no controllers.
fn gives_more_than_v2(hierarchy: &Hierarchy) -> bool {
    hierarchy.controllers.iter().any(|it| !matches!(it, Controller::Cpuacct | Controller::Freezer))
}

fn settle_one(surveyed: Surveyed) -> Hierarchy {
    let home = match surveyed.version {
        Version::V1 => v1_home(&surveyed),
        Version::V2 => v2_home(&surveyed),
    };
    let mut hierarchy = Hierarchy {
        version: surveyed.version,
        obstacle: home.is_none().then(|| obstacle(&surveyed)),
        home: home.unwrap_or(surveyed.own),
        mount_point: surveyed.mount_point,
        controllers: surveyed.controllers,
        withheld: Vec::new(),
        tracks: false,
    };
    if hierarchy.version == Version::V2 {
        settle_controllers(&mut hierarchy);
    }
    hierarchy
}

/// Our own group, so that limits somebody set for us hold for what we start.
fn v1_home(surveyed: &Surveyed) -> Option<PathBuf> {
    (!surveyed.read_only && may_make_groups(&surveyed.own)).then(|| surveyed.own.clone())
}

/// The topmost group on the way to our own in which we may make groups: the root, or what was delegated to us.
/// Not our own, since a group that holds processes cannot hand controllers on.
fn v2_home(surveyed: &Surveyed) -> Option<PathBuf> {
    if surveyed.read_only {
        return None;
    }
    let way: Vec<&Path> =
        surveyed.own.ancestors().take_while(|it| it.starts_with(&surveyed.mount_point)).collect();
    way.into_iter().rev().find(|it| may_make_groups(it)).map(Path::to_path_buf)
}

fn may_make_groups(group: &Path) -> bool {
    files::may_write(group) && files::may_write(&group.join("cgroup.procs"))
}

fn obstacle(surveyed: &Surveyed) -> Obstacle {
    let mount_point = surveyed.mount_point.display();
    if surveyed.read_only {
        let why = format!("`{mount_point}` is mounted read-only");
        return Obstacle {
            why,
            fix: "mount it read-write (in a container: give it a writable cgroup)".to_owned(),
        };
    }
    let why = format!("no group from `{mount_point}` to `{}` may be written to", surveyed.own.display());
    let fix = match surveyed.version {
        Version::V1 => "run as root, or boot with cgroup v2 (systemd.unified_cgroup_hierarchy=1)",
        Version::V2 => {
            "run as root, or in a delegated group: systemd-run --user --scope -p Delegate=yes pinfold …"
        }
    };
    Obstacle { why, fix: fix.to_owned() }
}

/// Sorts the controllers of v2 into those that can reach our groups and those that cannot.
fn settle_controllers(hierarchy: &mut Hierarchy) {
    let home = &hierarchy.home;
    let offered = controllers_in(&home.join("cgroup.controllers"));
    let handed_on = controllers_in(&home.join("cgroup.subtree_control"));
    let may_hand_on = may_hand_on(home);
    for controller in controllers_in(&hierarchy.mount_point.join("cgroup.controllers")) {
        if handed_on.contains(&controller) || (offered.contains(&controller) && may_hand_on.is_ok()) {
            hierarchy.controllers.push(controller);
            continue;
        }
        let obstacle = match &may_hand_on {
            Err(obstacle) if offered.contains(&controller) => obstacle.clone(),
            _ => not_delegated(controller, home),
        };
        hierarchy.withheld.push((controller, obstacle));
    }
}

/// Controllers of a file that cannot be read are controllers we do not have.
fn controllers_in(file: &Path) -> Vec<Controller> {
    let text = files::read(file).unwrap_or_default();
    text.split_whitespace().filter_map(Controller::from_v2).collect()
}

/// Only the root may hand controllers on while it holds processes. (It is the one group without a type.)
fn may_hand_on(home: &Path) -> Result<(), Obstacle> {
    let file = home.join("cgroup.subtree_control");
    if !files::may_write(&file) {
        let why = format!("`{}` may not be written to", file.display());
        return Err(Obstacle { why, fix: "run as root, or in a delegated group".to_owned() });
    }
    let is_root = !home.join("cgroup.type").exists();
    let holds_processes = files::read(&home.join("cgroup.procs")).map_or(true, |text| !text.is_empty());
    if holds_processes && !is_root {
        let why = format!("`{}` holds processes itself, so it cannot hand on controllers", home.display());
        let fix = "start them in a group of their own below it, or enable its controllers before they start";
        return Err(Obstacle { why, fix: fix.to_owned() });
    }
    Ok(())
}

fn not_delegated(controller: Controller, home: &Path) -> Obstacle {
    let name = controller.v2_name();
    let why = format!("controller `{name}` does not reach `{}`", home.display());
    Obstacle {
        why,
        fix: "systemctl edit user@.service, and set Delegate=cpu io memory pids there".to_owned(),
    }
}
