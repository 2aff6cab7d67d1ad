//! Real groups with real processes in them. Every test works below a base of its own and takes it away again.

#[path = "cgroup/base.rs"]
mod base;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::{TestBase, TestDirectory, Worker, within};
use pinfold_linux::cgroup::{CgroupLimits, Cgroups};

const SOON: Duration = Duration::from_secs(10);

fn all_limits() -> CgroupLimits {
    CgroupLimits {
        memory_bytes: Some(64 << 20),
        processes: Some(100),
        cpu_millis: Some(1500),
        cpu_weight: Some(50),
        count_io: true,
    }
}

#[test]
fn making_and_removing_leaves_nothing() {
    let Some(base) = TestBase::new("making_and_removing_leaves_nothing") else { return };

    let body = base.cgroups.make("sbx.1", &all_limits()).unwrap();
    assert!(!base.cgroups.look("sbx.1").unwrap().is_empty());
    body.remove(SOON).unwrap();

    assert_eq!(base.cgroups.look("sbx.1").unwrap(), Vec::<PathBuf>::new());
    assert_eq!(base.cgroups.discover().unwrap(), Vec::<String>::new());
    base.cgroups.remove_empty_bases().unwrap();
    assert_eq!(base.directories(), Vec::<PathBuf>::new());
}

#[test]
fn making_again_and_removing_again_succeed() {
    let Some(base) = TestBase::new("making_again_and_removing_again_succeed") else { return };
    let more = CgroupLimits { memory_bytes: Some(128 << 20), ..all_limits() };

    base.cgroups.make("sbx.1", &all_limits()).unwrap();
    base.cgroups.make("sbx.1", &more).unwrap();
    base.cgroups.make("sbx.1", &all_limits()).unwrap();

    let body = base.cgroups.open("sbx.1").unwrap();
    body.remove(SOON).unwrap();
    body.remove(SOON).unwrap();
    assert!(body.is_empty().unwrap());
    assert_eq!(body.look().unwrap(), Vec::<PathBuf>::new());
}

#[test]
fn what_is_not_asked_for_is_not_made() {
    let Some(base) = TestBase::new("what_is_not_asked_for_is_not_made") else { return };

    base.cgroups.make("bare.1", &CgroupLimits::default()).unwrap();
    base.cgroups.make("full.1", &all_limits()).unwrap();

    let bare = base.cgroups.look("bare.1").unwrap().len();
    let full = base.cgroups.look("full.1").unwrap().len();
    assert!(bare <= full && bare <= 2, "{bare} and {full}");
}

#[test]
fn limits_are_written_to_the_work_alone() {
    let Some(base) = TestBase::new("limits_are_written_to_the_work_alone") else { return };
    base.cgroups.make("sbx.1", &all_limits()).unwrap();

    // Where nothing else is in it, the body's own group is that of the work.
    let read = |file: &str| base.read("sbx.1", "work", file).or(base.read("sbx.1", "", file));
    assert_eq!(read("pids.max").unwrap(), "100");
    assert_eq!(read("memory.max").or(read("memory.limit_in_bytes")).unwrap(), (64 << 20).to_string());
    assert_eq!(read("cpu.max").or(read("cpu.cfs_quota_us")).unwrap().split(' ').next(), Some("150000"));
    if let Some(swap) = read("memory.memsw.limit_in_bytes") {
        assert_eq!(swap, (64 << 20).to_string());
    }

    let keeper = |file: &str| base.read("sbx.1", "keeper", file);
    assert_ne!(keeper("memory.max").or(keeper("memory.limit_in_bytes")), Some((64 << 20).to_string()));
}

#[test]
fn where_a_body_is_only_limited_one_group_is_enough() {
    let Some(base) = TestBase::new("where_a_body_is_only_limited_one_group_is_enough") else { return };
    base.cgroups.make("sbx.1", &all_limits()).unwrap();

    let (v2, v1): (Vec<_>, Vec<_>) =
        base.directories().into_iter().partition(|it| it.join("cgroup.controllers").exists());
    // Without v2, one of the others holds the keeper too.
    let with_more = v1.iter().filter(|it| it.join("sbx.1").metadata().is_ok_and(|it| it.nlink() > 2)).count();
    assert!(with_more <= usize::from(v2.is_empty()), "{with_more}");
}

#[test]
fn fifty_processes_are_ended_as_a_whole() {
    let Some(base) = TestBase::new("fifty_processes_are_ended_as_a_whole") else { return };
    let body = base.cgroups.make("sbx.1", &all_limits()).unwrap();
    let script = "i=0; while [ $i -lt 50 ]; do (trap '' TERM; setsid sleep 60) & i=$((i+1)); done; wait";
    let _worker = Worker::start(script, &body.joiners_of_work().unwrap());
    within(SOON, || body.processes().unwrap().len() > 50);
    assert!(!body.is_empty().unwrap());

    // From the outside, by the name alone.
    let body = base.cgroups.open("sbx.1").unwrap();
    body.kill_all().unwrap();
    body.wait_empty(SOON).unwrap();

    assert!(body.is_empty().unwrap());
    assert_eq!(body.processes().unwrap(), Vec::<u32>::new());
    body.remove(SOON).unwrap();
    assert_eq!(base.cgroups.look("sbx.1").unwrap(), Vec::<PathBuf>::new());
}

#[test]
fn ending_the_work_leaves_the_keeper_alive() {
    let Some(base) = TestBase::new("ending_the_work_leaves_the_keeper_alive") else { return };
    let body = base.cgroups.make("sbx.1", &all_limits()).unwrap();
    let mut keeper = Worker::start("sleep 60", &body.joiners_of_keeper().unwrap());
    let mut work = Worker::start("sleep 60", &body.joiners_of_work().unwrap());

    body.kill_work().unwrap();
    let ended = work.wait();

    assert!(!ended.success());
    assert!(keeper.is_alive());
    assert!(body.processes().unwrap().contains(&keeper.id()));
    body.end_all(SOON).unwrap();
    assert!(!keeper.wait().success());
}

#[test]
fn a_process_joins_by_itself_with_what_was_opened_for_it() {
    let Some(base) = TestBase::new("a_process_joins_by_itself_with_what_was_opened_for_it") else { return };
    let limits = CgroupLimits { processes: Some(20), ..CgroupLimits::default() };
    let body = base.cgroups.make("sbx.1", &limits).unwrap();
    let joiners = body.joiners_of_work().unwrap();
    let groups = joiners.len();

    let worker = Worker::start_joining("exec sleep 60", joiners);

    let in_ours = || {
        let text = fs::read_to_string(format!("/proc/{}/cgroup", worker.id())).unwrap();
        text.lines().filter(|line| line.ends_with("/sbx.1/work") || line.ends_with("/sbx.1")).count()
    };
    within(SOON, || in_ours() == groups);
    body.end_all(SOON).unwrap();
}

#[test]
fn a_process_that_joined_some_groups_only_is_ended_too() {
    let Some(base) = TestBase::new("a_process_that_joined_some_groups_only_is_ended_too") else { return };
    let body = base.cgroups.make("sbx.1", &all_limits()).unwrap();
    let last = body.joiners_of_work().unwrap().pop().unwrap();
    let mut half_in = Worker::start("sleep 60", &[last]);

    body.end_all(SOON).unwrap();

    assert!(!half_in.wait().success());
    body.remove(SOON).unwrap();
}

#[test]
fn one_process_too_many_is_refused_and_counted() {
    let Some(base) = TestBase::new("one_process_too_many_is_refused_and_counted") else { return };
    let limits = CgroupLimits { processes: Some(4), ..CgroupLimits::default() };
    let body = base.cgroups.make("sbx.1", &limits).unwrap();

    let script = "for i in 1 2 3 4 5 6 7 8; do sleep 60 & done; wait";
    let _worker = Worker::start(script, &body.joiners_of_work().unwrap());

    within(SOON, || body.breaches().pids_refused.is_some_and(|it| it > 0));
    assert!(body.usage().processes.is_some_and(|it| it <= 4));
    assert!(body.processes().unwrap().len() <= 4);
}

#[test]
fn memory_beyond_the_limit_is_fatal_and_counted() {
    let Some(base) = TestBase::new("memory_beyond_the_limit_is_fatal_and_counted") else { return };
    let limits = CgroupLimits { memory_bytes: Some(16 << 20), ..CgroupLimits::default() };
    let body = base.cgroups.make("sbx.1", &limits).unwrap();

    // One buffer of 64 MiB, filled once.
    let script = "exec dd if=/dev/zero of=/dev/null bs=64M count=1 2>/dev/null";
    let mut worker = Worker::start(script, &body.joiners_of_work().unwrap());
    let ended = worker.wait();

    assert!(!ended.success());
    let breaches = body.breaches();
    assert!(breaches.memory_kills.is_some_and(|it| it > 0), "{breaches:?}");
    assert!(breaches.memory_reached.is_some(), "{breaches:?}");
    assert!(body.usage().memory_peak_bytes.is_none_or(|it| it <= 16 << 20));
}

#[test]
fn usage_grows_with_what_is_done() {
    let Some(base) = TestBase::new("usage_grows_with_what_is_done") else { return };
    let body = base.cgroups.make("sbx.1", &all_limits()).unwrap();
    let before = body.usage();

    let script = "x=$(head -c 4000000 /dev/zero | tr '\\0' x); i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; sleep 60";
    let _worker = Worker::start(script, &body.joiners_of_work().unwrap());

    within(SOON, || body.usage().cpu_ms > before.cpu_ms.map(|it| it + 20));
    within(SOON, || body.usage().memory_bytes > before.memory_bytes.map(|it| it + 2_000_000));
    let usage = body.usage();
    assert!(usage.memory_peak_bytes.is_none_or(|it| it > 2_000_000), "{usage:?}");
    assert!(usage.processes >= Some(1), "{usage:?}");
    assert!(usage.io_read_bytes.is_some(), "{usage:?}");
}

#[test]
fn figures_of_a_body_that_is_not_there_are_none() {
    let Some(base) = TestBase::new("figures_of_a_body_that_is_not_there_are_none") else { return };

    let body = base.cgroups.open("never.1").unwrap();

    assert_eq!(body.usage(), Default::default());
    assert_eq!(body.breaches(), Default::default());
    assert!(body.is_empty().unwrap());
    body.kill_all().unwrap();
    body.remove(SOON).unwrap();
}

#[test]
fn groups_nested_below_the_work_are_removed() {
    let Some(base) = TestBase::new("groups_nested_below_the_work_are_removed") else { return };
    let body = base.cgroups.make("sbx.1", &all_limits()).unwrap();
    for directory in base.cgroups.look("sbx.1").unwrap() {
        let deep: PathBuf = (0..20).map(|depth| format!("n{depth}")).collect();
        fs::create_dir_all(directory.join("work").join(deep)).unwrap();
        fs::create_dir_all(directory.join("work/wide/a")).unwrap();
        fs::create_dir_all(directory.join("stray/b")).unwrap();
    }

    body.remove(SOON).unwrap();

    assert_eq!(base.cgroups.look("sbx.1").unwrap(), Vec::<PathBuf>::new());
}

#[test]
fn what_holds_a_process_is_named_and_left() {
    let Some(base) = TestBase::new("what_holds_a_process_is_named_and_left") else { return };
    let body = base.cgroups.make("sbx.1", &all_limits()).unwrap();
    let mut worker = Worker::start("sleep 60", &body.joiners_of_work().unwrap());

    let error = body.remove(Duration::from_millis(20)).unwrap_err();

    assert!(error.left().ends_with("sbx.1"), "{error}");
    assert!(worker.is_alive());
    assert!(body.processes().unwrap().contains(&worker.id()));
}

#[test]
fn half_made_and_half_removed_bodies_are_found() {
    let Some(base) = TestBase::new("half_made_and_half_removed_bodies_are_found") else { return };
    base.cgroups.make("whole.1", &all_limits()).unwrap();
    for directory in base.cgroups.look("whole.1").unwrap() {
        let hierarchy_base = directory.parent().unwrap();
        let only_here =
            format!("half.{}", base.directories().iter().position(|it| it == hierarchy_base).unwrap());
        fs::create_dir(hierarchy_base.join(only_here)).unwrap();
    }

    let other_process = Cgroups::detect(&base.name).unwrap();
    let found = other_process.discover().unwrap();

    assert_eq!(found.len(), base.directories().len() + 1);
    for name in found {
        other_process.open(&name).unwrap().remove(SOON).unwrap();
    }
    assert_eq!(base.cgroups.discover().unwrap(), Vec::<String>::new());
}

#[test]
fn another_process_joins_what_was_made_and_nothing_else() {
    let Some(base) = TestBase::new("another_process_joins_what_was_made_and_nothing_else") else { return };
    let made = base.cgroups.make("sbx.1", &CgroupLimits::default()).unwrap();

    let opened = Cgroups::detect(&base.name).unwrap().open("sbx.1").unwrap();

    assert_eq!(opened.joiners_of_work().unwrap().len(), made.joiners_of_work().unwrap().len());
    assert_eq!(opened.joiners_of_keeper().unwrap().len(), made.joiners_of_keeper().unwrap().len());
    assert!(base.cgroups.open("never.1").unwrap().joiners_of_work().is_err());
}

/// As when it was made by a process that somebody had put into a group of its own.
#[test]
fn a_body_made_from_another_group_is_found_and_removed() {
    let Some(base) = TestBase::new("a_body_made_from_another_group_is_found_and_removed") else { return };
    base.cgroups.make("own.1", &all_limits()).unwrap();
    let has_limits = |it: &&Path| {
        ["pids.events", "work/pids.events"].iter().any(|file| it.join("own.1").join(file).exists())
    };
    let directories = base.directories();
    let Some(home) = directories.iter().map(PathBuf::as_path).find(has_limits) else {
        return;
    };
    if home.join("cgroup.controllers").exists() {
        // On v2 the place is the same for all.
        return;
    }
    let theirs = TestDirectory::new(home.parent().unwrap().join(format!("{}.theirs", base.name)));
    fs::create_dir_all(theirs.path.join(&base.name).join("far.1/work")).unwrap();

    assert_eq!(base.cgroups.discover().unwrap(), ["far.1", "own.1"]);
    base.cgroups.open("far.1").unwrap().remove(SOON).unwrap();
    assert_eq!(base.cgroups.look("far.1").unwrap(), Vec::<PathBuf>::new());
    base.cgroups.remove_empty_bases().unwrap();

    assert!(!theirs.path.join(&base.name).exists());
}

#[test]
fn a_base_that_holds_a_body_stays_and_one_that_was_removed_is_made_again() {
    let name = "a_base_that_holds_a_body_stays_and_one_that_was_removed_is_made_again";
    let Some(base) = TestBase::new(name) else { return };
    let body = base.cgroups.make("sbx.1", &all_limits()).unwrap();

    base.cgroups.remove_empty_bases().unwrap();
    assert!(!body.look().unwrap().is_empty());

    body.remove(SOON).unwrap();
    base.cgroups.remove_empty_bases().unwrap();
    assert_eq!(base.directories(), Vec::<PathBuf>::new());
    base.cgroups.make("sbx.1", &all_limits()).unwrap();
}

#[test]
fn an_execution_ends_with_everything_it_left_behind_and_nothing_else() {
    let name = "an_execution_ends_with_everything_it_left_behind_and_nothing_else";
    let Some(base) = TestBase::new(name) else { return };
    let body = base.cgroups.make("sbx.1", &all_limits()).unwrap();
    let (one, two) = (body.execution("exe_1").unwrap(), body.execution("exe_2").unwrap());
    one.make().unwrap();
    one.make().unwrap();
    two.make().unwrap();
    let join = |it: &pinfold_linux::cgroup::ExecutionCgroup| {
        body.joiners_of_work().unwrap().into_iter().chain([it.joiner().unwrap()]).collect::<Vec<_>>()
    };
    // The first shell is gone at once; what it left has no parent of ours and a session of its own.
    let mut first = Worker::start("(setsid sh -c 'trap \"\" TERM; sleep 60' &) ; exit 0", &join(&one));
    let mut second = Worker::start("sleep 60", &join(&two));
    first.wait();
    assert!(!one.is_empty().unwrap());

    one.kill().unwrap();
    one.wait_empty(SOON).unwrap();

    assert_eq!(one.processes().unwrap(), Vec::<u32>::new());
    one.remove(SOON).unwrap();
    one.remove(SOON).unwrap();
    assert!(second.is_alive());
    assert!(two.processes().unwrap().contains(&second.id()));
    body.end_all(SOON).unwrap();
    body.remove(SOON).unwrap();
}

#[test]
fn a_keeper_that_is_not_root_starts_executions_and_sets_no_limits() {
    let name = "a_keeper_that_is_not_root_starts_executions_and_sets_no_limits";
    let Some(base) = TestBase::new_as_root(name) else { return };
    let body = base.cgroups.make("sbx.1", &all_limits()).unwrap();
    body.delegate_to(65534, 65534).unwrap();
    let execution = body.execution("exe_1").unwrap();
    let tracked = base.cgroups.look("sbx.1").unwrap().remove(0);

    let work = tracked.join("work");
    let start =
        format!("mkdir {0}/exe_1 && echo 0 > {0}/exe_1/cgroup.procs && exec sleep 60", work.display());
    let script = format!("exec setpriv --reuid 65534 --regid 65534 --clear-groups sh -c '{start}'");
    let worker = Worker::start(&script, &body.joiners_of_keeper().unwrap());

    within(SOON, || execution.processes().unwrap() == [worker.id()]);
    let owner = |file: &str| fs::metadata(work.join(file)).unwrap().uid();
    assert_eq!([owner("cgroup.freeze"), owner("cgroup.kill"), owner("cgroup.subtree_control")], [0; 3]);
    execution.kill().unwrap();
    execution.wait_empty(SOON).unwrap();
    execution.remove(SOON).unwrap();
}

#[test]
fn names_that_lead_out_of_the_base_are_refused() {
    let Some(base) = TestBase::new("names_that_lead_out_of_the_base_are_refused") else { return };

    for name in ["..", "../x", "a/b", ""] {
        assert!(base.cgroups.make(name, &all_limits()).is_err());
        assert!(base.cgroups.open(name).is_err());
        assert!(base.cgroups.look(name).is_err());
    }
    assert!(!base.directories().iter().any(|it| Path::new(it).join("x").exists()));
}
