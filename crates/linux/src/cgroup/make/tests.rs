//! What is written on a pure v2 host, tested on plain directories laid out like one.

use std::fs;
use std::path::Path;

use super::*;
use crate::cgroup::Ability;
use crate::cgroup::detect::DetectedHierarchy;

const CONTROL: &str = "cgroup.subtree_control";

/// Directories with the files that the kernel would create in them.
fn lay_out(root: &Path) -> Cgroups {
    let instance = root.join("pinfold.t/sbx.1");
    let work = instance.join("work");
    fs::create_dir_all(&work).unwrap();
    for group in [root, &root.join("pinfold.t"), &instance] {
        fs::write(group.join("cgroup.controllers"), "cpuset cpu io memory pids\n").unwrap();
        fs::write(group.join(CONTROL), "").unwrap();
        fs::write(group.join("cgroup.procs"), "").unwrap();
    }
    for file in ["memory.max", "memory.swap.max", "pids.max", "cpu.max"] {
        fs::write(work.join(file), "").unwrap();
    }
    detect(root)
}

fn detect(root: &Path) -> Cgroups {
    let detected = DetectedHierarchy {
        version: Version::V2,
        controllers: vec![],
        mount_point: root.to_path_buf(),
        own: root.join("user.slice/session.scope"),
        read_only: false,
    };
    Cgroups::from_detected("pinfold.t", vec![detected])
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn limits_are_written_to_work_and_only_needed_controllers_are_enabled() {
    let root = tempfile::tempdir().unwrap();
    let cgroups = lay_out(root.path());
    let limits = CgroupLimits { memory_bytes: Some(1 << 20), processes: Some(9), ..CgroupLimits::default() };

    let instance = cgroups.make("sbx.1", &limits).unwrap();

    let group = root.path().join("pinfold.t/sbx.1");
    assert_eq!(instance.existing().unwrap(), std::slice::from_ref(&group));
    assert_eq!(text(&group.join(CONTROL)), "+memory +pids");
    assert_eq!(text(&group.join("work/memory.max")), "1048576");
    assert_eq!(text(&group.join("work/memory.swap.max")), "0");
    assert_eq!(text(&group.join("work/pids.max")), "9");
    assert_eq!(text(&group.join("work/cpu.max")), "");
    assert!(group.join("keeper").is_dir());
}

#[test]
fn every_ability_of_v2_is_reported() {
    let root = tempfile::tempdir().unwrap();

    let abilities = lay_out(root.path()).abilities();

    for ability in
        [abilities.kill, abilities.freeze, abilities.memory, abilities.pids, abilities.cpu, abilities.io]
    {
        assert!(ability.is_enforced(), "{ability:?}");
    }
}

#[test]
fn read_only_hierarchy_is_not_reported_as_missing() {
    let root = tempfile::tempdir().unwrap();
    let detected = DetectedHierarchy {
        version: Version::V2,
        controllers: vec![],
        mount_point: root.path().to_path_buf(),
        own: root.path().to_path_buf(),
        read_only: true,
    };

    let abilities = Cgroups::from_detected("pinfold.t", vec![detected]).abilities();

    for ability in [abilities.kill, abilities.freeze, abilities.cpu_time] {
        let Ability::Unavailable { why, .. } = ability else { panic!("{ability:?}") };
        assert!(why.contains("read-only"), "{why}");
    }
}

#[test]
fn parent_that_holds_processes_enables_no_controllers() {
    let root = tempfile::tempdir().unwrap();
    lay_out(root.path());
    fs::write(root.path().join("cgroup.type"), "domain\n").unwrap();
    fs::write(root.path().join("cgroup.procs"), "7\n").unwrap();

    let abilities = detect(root.path()).abilities();

    assert!(!abilities.memory.is_enforced());
    assert!(abilities.kill.is_enforced());
}

#[test]
fn controllers_enabled_in_the_parent_are_available() {
    let root = tempfile::tempdir().unwrap();
    lay_out(root.path());
    fs::write(root.path().join("cgroup.type"), "domain\n").unwrap();
    fs::write(root.path().join("cgroup.procs"), "7\n").unwrap();
    fs::write(root.path().join(CONTROL), "memory\n").unwrap();

    let abilities = detect(root.path()).abilities();

    assert!(abilities.memory.is_enforced());
    assert!(!abilities.pids.is_enforced());
}
