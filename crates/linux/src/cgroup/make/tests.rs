//! What is written on a machine with pure v2, on plain directories laid out like one.

use std::fs;
use std::path::Path;

use super::*;
use crate::cgroup::Ability;
use crate::cgroup::survey::Surveyed;

const CONTROL: &str = "cgroup.subtree_control";

/// Directories that have the files the kernel would have made in them.
fn lay_out(root: &Path) -> Cgroups {
    let body = root.join("pinfold.t/sbx.1");
    let work = body.join("work");
    fs::create_dir_all(&work).unwrap();
    for group in [root, &root.join("pinfold.t"), &body] {
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
    let surveyed = Surveyed {
        version: Version::V2,
        controllers: vec![],
        mount_point: root.to_path_buf(),
        own: root.join("user.slice/session.scope"),
        read_only: false,
    };
    Cgroups::from_survey("pinfold.t", vec![surveyed])
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn limits_go_to_the_work_and_controllers_as_far_as_they_are_asked() {
    let root = tempfile::tempdir().unwrap();
    let cgroups = lay_out(root.path());
    let limits = CgroupLimits { memory_bytes: Some(1 << 20), processes: Some(9), ..CgroupLimits::default() };

    let body = cgroups.make("sbx.1", &limits).unwrap();

    let group = root.path().join("pinfold.t/sbx.1");
    assert_eq!(body.look().unwrap(), std::slice::from_ref(&group));
    assert_eq!(text(&group.join(CONTROL)), "+memory +pids");
    assert_eq!(text(&group.join("work/memory.max")), "1048576");
    assert_eq!(text(&group.join("work/memory.swap.max")), "0");
    assert_eq!(text(&group.join("work/pids.max")), "9");
    assert_eq!(text(&group.join("work/cpu.max")), "");
    assert!(group.join("keeper").is_dir());
}

#[test]
fn every_ability_of_v2_is_told() {
    let root = tempfile::tempdir().unwrap();

    let abilities = lay_out(root.path()).abilities();

    for ability in
        [abilities.kill, abilities.freeze, abilities.memory, abilities.pids, abilities.cpu, abilities.io]
    {
        assert!(ability.is_enforced(), "{ability:?}");
    }
}

#[test]
fn what_is_barred_is_not_said_to_be_missing() {
    let root = tempfile::tempdir().unwrap();
    let surveyed = Surveyed {
        version: Version::V2,
        controllers: vec![],
        mount_point: root.path().to_path_buf(),
        own: root.path().to_path_buf(),
        read_only: true,
    };

    let abilities = Cgroups::from_survey("pinfold.t", vec![surveyed]).abilities();

    for ability in [abilities.kill, abilities.freeze, abilities.cpu_time] {
        let Ability::Unavailable { why, .. } = ability else { panic!("{ability:?}") };
        assert!(why.contains("read-only"), "{why}");
    }
}

#[test]
fn a_home_that_holds_processes_hands_on_nothing() {
    let root = tempfile::tempdir().unwrap();
    lay_out(root.path());
    fs::write(root.path().join("cgroup.type"), "domain\n").unwrap();
    fs::write(root.path().join("cgroup.procs"), "7\n").unwrap();

    let abilities = detect(root.path()).abilities();

    assert!(!abilities.memory.is_enforced());
    assert!(abilities.kill.is_enforced());
}

#[test]
fn what_the_home_hands_on_already_needs_no_leave() {
    let root = tempfile::tempdir().unwrap();
    lay_out(root.path());
    fs::write(root.path().join("cgroup.type"), "domain\n").unwrap();
    fs::write(root.path().join("cgroup.procs"), "7\n").unwrap();
    fs::write(root.path().join(CONTROL), "memory\n").unwrap();

    let abilities = detect(root.path()).abilities();

    assert!(abilities.memory.is_enforced());
    assert!(!abilities.pids.is_enforced());
}
