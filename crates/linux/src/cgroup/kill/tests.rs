//! The kill one by one, as machines with v1 alone and kernels before `cgroup.kill` need it. Real groups: v1 of this
//! host with v2 left out of sight.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::*;
use crate::cgroup::survey::{self, Surveyed};
use crate::cgroup::{CgroupLimits, Cgroups};

const SOON: Duration = Duration::from_secs(10);

/// Takes away what a test made, and the process it started.
struct Guard {
    cgroups: Cgroups,
    child: Child,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Ok(body) = self.cgroups.open("sbx.1") {
            let _best_effort = body.end_all(SOON);
            let _best_effort = body.remove(SOON);
        }
        let _best_effort = self.cgroups.remove_empty_bases();
        let _already_gone = self.child.kill();
        let _already_reaped = self.child.wait();
    }
}

/// Twenty processes that wait for a word and are then in the group of a body's work.
fn twenty_in(test: &str, keep: fn(&Surveyed) -> bool) -> Option<(Guard, BodyCgroup)> {
    let mountinfo = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let membership = fs::read_to_string("/proc/self/cgroup").unwrap();
    let surveyed = survey::survey(&mountinfo, &membership).into_iter().filter(keep).collect();
    let cgroups = Cgroups::from_survey(&format!("pinfold-{test}.{}", std::process::id()), surveyed);
    if !cgroups.abilities().kill.is_enforced() {
        skip(test, &format!("{:?}", cgroups.abilities().kill));
        return None;
    }

    let script = "read go; i=0; while [ $i -lt 20 ]; do sleep 60 & i=$((i+1)); done; wait";
    let child = Command::new("sh").arg("-c").arg(script).stdin(Stdio::piped()).spawn().unwrap();
    let mut guard = Guard { cgroups, child };
    let body = guard.cgroups.make("sbx.1", &CgroupLimits::default()).unwrap();
    for joiner in body.joiners_of_work().unwrap() {
        fs::File::from(joiner).write_all(guard.child.id().to_string().as_bytes()).unwrap();
    }
    guard.child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let mut patience = Patience::of(SOON);
    while body.processes().unwrap().len() < 21 {
        patience.pause().unwrap();
    }
    Some((guard, body))
}

fn skip(test: &str, reason: &str) {
    let Some(list) = std::env::var_os("PINFOLD_SKIPPED_TESTS") else { return };
    let mut list = fs::OpenOptions::new().create(true).append(true).open(list).unwrap();
    // In one call: other tests write to it at the same time.
    list.write_all(format!("{test}: {reason}\n").as_bytes()).unwrap();
}

#[test]
fn a_machine_with_v1_alone_ends_a_tree_by_its_freezer() {
    let Some((mut guard, body)) = twenty_in("v1-alone", |it| it.version == Version::V1) else { return };
    assert!(body.tracked().unwrap().directory.join("freezer.state").exists());

    body.kill_work().unwrap();
    body.wait_empty(SOON).unwrap();

    assert!(!guard.child.wait().unwrap().success());
    assert!(body.usage().cpu_ms.is_some());
    body.remove(SOON).unwrap();
    assert_eq!(guard.cgroups.look("sbx.1").unwrap(), Vec::<PathBuf>::new());
}

#[test]
fn a_kernel_without_a_kill_file_ends_a_tree_one_by_one() {
    let Some((mut guard, body)) = twenty_in("no-kill-file", |it| it.version == Version::V2) else { return };

    body.tracked().unwrap().kill_one_by_one().unwrap();
    body.wait_empty(SOON).unwrap();

    assert!(!guard.child.wait().unwrap().success());
    body.remove(SOON).unwrap();
}
