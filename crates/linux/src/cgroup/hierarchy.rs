//! A hierarchy as this process may use it: where its base is created, and which controllers are available below.

use std::path::{Path, PathBuf};

use super::detect::{Controller, DetectedHierarchy, Version};
use super::files;

#[derive(Debug, Clone)]
pub(super) struct Hierarchy {
    pub(super) version: Version,
    pub(super) mount_point: PathBuf,
    /// The cgroup in which the base is created.
    pub(super) base_parent: PathBuf,
    /// Controllers available to cgroups below the base.
    pub(super) controllers: Vec<Controller>,
    /// Controllers that exist but are not available to us.
    pub(super) withheld: Vec<(Controller, Obstacle)>,
    /// Set if no cgroup can be created at all.
    pub(super) obstacle: Option<Obstacle>,
    /// Whether processes are found and killed by this hierarchy; at most one is.
    pub(super) tracks: bool,
}

/// Why something is unavailable, and how the operator can fix it.
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

    /// Whether all processes with our privileges use the same base, whatever cgroup they are in.
    pub(super) fn base_is_fixed(&self) -> bool {
        self.version == Version::V2 && self.base_parent == self.mount_point
    }
}

pub(super) fn classify(detected: Vec<DetectedHierarchy>) -> Vec<Hierarchy> {
    let mut hierarchies: Vec<Hierarchy> = detected.into_iter().map(classify_hierarchy).collect();
    if let Some(tracker) = choose_tracker(&hierarchies) {
        hierarchies[tracker].tracks = true;
        if hierarchies[tracker].version == Version::V2 {
            hierarchies.retain(|it| it.version == Version::V2 || gives_more_than_v2(it));
        }
    }
    hierarchies
}

/// v2 kills a whole tree in one call, however fast it forks. In v1 the freezer stops a tree while it is killed;
/// without it, any hierarchy can list the processes.
fn choose_tracker(hierarchies: &[Hierarchy]) -> Option<usize> {
    let first = |test: &dyn Fn(&Hierarchy) -> bool| hierarchies.iter().position(|it| it.usable() && test(it));
    first(&|it| it.version == Version::V2)
        .or_else(|| first(&|it| it.has(Controller::Freezer)))
        .or_else(|| first(&|it| it.has(Controller::Pids)))
        .or_else(|| first(&|_| true))
}

/// Whether it has controllers that v2 lacks. CPU time and freezing are built into v2.
fn gives_more_than_v2(hierarchy: &Hierarchy) -> bool {
    hierarchy.controllers.iter().any(|it| !matches!(it, Controller::Cpuacct | Controller::Freezer))
}

fn classify_hierarchy(detected: DetectedHierarchy) -> Hierarchy {
    let home = match detected.version {
        Version::V1 => v1_home(&detected),
        Version::V2 => v2_home(&detected),
    };
    let mut hierarchy = Hierarchy {
        version: detected.version,
        obstacle: home.is_none().then(|| obstacle(&detected)),
        base_parent: home.unwrap_or(detected.own),
        mount_point: detected.mount_point,
        controllers: detected.controllers,
        withheld: Vec::new(),
        tracks: false,
    };
    if hierarchy.version == Version::V2 {
        classify_controllers(&mut hierarchy);
    }
    hierarchy
}

/// Our own cgroup, so that limits set on us apply to what we start.
fn v1_home(detected: &DetectedHierarchy) -> Option<PathBuf> {
    (!detected.read_only && may_create_groups(&detected.own)).then(|| detected.own.clone())
}

/// The topmost cgroup on the path to our own in which we may create cgroups: the root, or what was delegated to us.
/// Not our own, since a cgroup that holds processes cannot enable controllers for children.
fn v2_home(detected: &DetectedHierarchy) -> Option<PathBuf> {
    if detected.read_only {
        return None;
    }
    let ancestors: Vec<&Path> =
        detected.own.ancestors().take_while(|it| it.starts_with(&detected.mount_point)).collect();
    ancestors.into_iter().rev().find(|it| may_create_groups(it)).map(Path::to_path_buf)
}

fn may_create_groups(group: &Path) -> bool {
    files::may_write(group) && files::may_write(&group.join("cgroup.procs"))
}

fn obstacle(detected: &DetectedHierarchy) -> Obstacle {
    let mount_point = detected.mount_point.display();
    if detected.read_only {
        let why = format!("`{mount_point}` is mounted read-only");
        return Obstacle {
            why,
            fix: "mount it read-write (in a container: give it a writable cgroup)".to_owned(),
        };
    }
    let why = format!("no cgroup from `{mount_point}` to `{}` may be written to", detected.own.display());
    let fix = match detected.version {
        Version::V1 => "run as root, or boot with cgroup v2 (systemd.unified_cgroup_hierarchy=1)",
        Version::V2 => {
            "run as root, or in a delegated group: systemd-run --user --scope -p Delegate=yes pinfold …"
        }
    };
    Obstacle { why, fix: fix.to_owned() }
}

/// Sorts the controllers of v2 into available and withheld ones.
fn classify_controllers(hierarchy: &mut Hierarchy) {
    let home = &hierarchy.base_parent;
    let offered = controllers_in(&home.join("cgroup.controllers"));
    let enabled = controllers_in(&home.join("cgroup.subtree_control"));
    let can_enable_controllers = can_enable_controllers(home);
    for controller in controllers_in(&hierarchy.mount_point.join("cgroup.controllers")) {
        if enabled.contains(&controller) || (offered.contains(&controller) && can_enable_controllers.is_ok())
        {
            hierarchy.controllers.push(controller);
            continue;
        }
        let obstacle = match &can_enable_controllers {
            Err(obstacle) if offered.contains(&controller) => obstacle.clone(),
            _ => not_delegated(controller, home),
        };
        hierarchy.withheld.push((controller, obstacle));
    }
}

/// An unreadable file counts as no controllers.
fn controllers_in(file: &Path) -> Vec<Controller> {
    let text = files::read(file).unwrap_or_default();
    text.split_whitespace().filter_map(Controller::from_v2).collect()
}

/// Only the root cgroup may enable controllers for children while it holds processes. (It is the only one without
/// `cgroup.type`.)
fn can_enable_controllers(home: &Path) -> Result<(), Obstacle> {
    let file = home.join("cgroup.subtree_control");
    if !files::may_write(&file) {
        let why = format!("`{}` may not be written to", file.display());
        return Err(Obstacle { why, fix: "run as root, or in a delegated group".to_owned() });
    }
    let is_root = !home.join("cgroup.type").exists();
    let holds_processes = files::read(&home.join("cgroup.procs")).map_or(true, |text| !text.is_empty());
    if holds_processes && !is_root {
        let why = format!(
            "`{}` holds processes itself, so it cannot enable controllers for children",
            home.display()
        );
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
