//! Killing one by one, as needed on v1 and on kernels before `cgroup.kill`. Uses real cgroups: v1 of this host with
//! v2 hidden.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use pinfold_test_support::skip;

use super::*;
use crate::cgroup::detect::{self, DetectedHierarchy};
use crate::cgroup::{CgroupLimits, Cgroups};

const SOON: Duration = Duration::from_secs(10);

/// Removes the cgroups and the process of a test.
struct Guard {
    cgroups: Cgroups,
    child: Child,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Ok(instance) = self.cgroups.open("sbx.1") {
            let _best_effort = instance.kill_all_and_wait(SOON);
            let _best_effort = instance.remove(SOON);
        }
        let _best_effort = self.cgroups.remove_empty_bases();
        let _already_gone = self.child.kill();
        let _already_reaped = self.child.wait();
    }
}

/// Twenty processes in the work cgroup of an instance.
fn twenty_in(test: &str, keep: fn(&DetectedHierarchy) -> bool) -> Option<(Guard, InstanceCgroup)> {
    let mountinfo = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let membership = fs::read_to_string("/proc/self/cgroup").unwrap();
    let detected = detect::detect_hierarchies(&mountinfo, &membership).into_iter().filter(keep).collect();
    let cgroups = Cgroups::from_detected(&format!("pinfold-{test}.{}", std::process::id()), detected);
    if !cgroups.abilities().kill.is_enforced() {
        skip(test, &format!("{:?}", cgroups.abilities().kill));
        return None;
    }

    let script = "read go; i=0; while [ $i -lt 20 ]; do sleep 60 & i=$((i+1)); done; wait";
    let child = Command::new("sh").arg("-c").arg(script).stdin(Stdio::piped()).spawn().unwrap();
    let mut guard = Guard { cgroups, child };
    let instance = guard.cgroups.make("sbx.1", &CgroupLimits::default()).unwrap();
    for join_file in instance.work_join_files().unwrap() {
        fs::File::from(join_file).write_all(guard.child.id().to_string().as_bytes()).unwrap();
    }
    guard.child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let mut wait = BoundedWait::new(SOON);
    while instance.processes().unwrap().len() < 21 {
        wait.pause().unwrap();
    }
    Some((guard, instance))
}

#[test]
fn v1_host_kills_a_tree_with_the_freezer() {
    let Some((mut guard, instance)) = twenty_in("v1-alone", |it| it.version == Version::V1) else { return };
    assert!(instance.tracked().unwrap().directory.join("freezer.state").exists());

    instance.kill_work().unwrap();
    instance.wait_empty(SOON).unwrap();

    assert!(!guard.child.wait().unwrap().success());
    assert!(instance.usage().cpu_ms.is_some());
    instance.remove(SOON).unwrap();
    assert_eq!(guard.cgroups.find("sbx.1").unwrap(), Vec::<PathBuf>::new());
}

#[test]
fn kernel_without_kill_file_kills_a_tree_one_by_one() {
    let Some((mut guard, instance)) = twenty_in("no-kill-file", |it| it.version == Version::V2) else {
        return;
    };

    instance.tracked().unwrap().kill_one_by_one().unwrap();
    instance.wait_empty(SOON).unwrap();

    assert!(!guard.child.wait().unwrap().success());
    instance.remove(SOON).unwrap();
}
