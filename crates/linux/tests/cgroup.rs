//! Real cgroups with real processes. Every test uses its own base and removes it.

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

    let instance = base.cgroups.make("sbx.1", &all_limits()).unwrap();
    assert!(!base.cgroups.find("sbx.1").unwrap().is_empty());
    instance.remove(SOON).unwrap();

    assert_eq!(base.cgroups.find("sbx.1").unwrap(), Vec::<PathBuf>::new());
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

    let instance = base.cgroups.open("sbx.1").unwrap();
    instance.remove(SOON).unwrap();
    instance.remove(SOON).unwrap();
    assert!(instance.is_empty().unwrap());
    assert_eq!(instance.existing().unwrap(), Vec::<PathBuf>::new());
}

#[test]
fn hierarchies_without_limits_get_no_cgroup() {
    let Some(base) = TestBase::new("hierarchies_without_limits_get_no_cgroup") else { return };

    base.cgroups.make("bare.1", &CgroupLimits::default()).unwrap();
    base.cgroups.make("full.1", &all_limits()).unwrap();

    let bare = base.cgroups.find("bare.1").unwrap().len();
    let full = base.cgroups.find("full.1").unwrap().len();
    assert!(bare <= full && bare <= 2, "{bare} and {full}");
}

#[test]
fn limits_are_written_to_work_and_not_to_keeper() {
    let Some(base) = TestBase::new("limits_are_written_to_work_and_not_to_keeper") else { return };
    base.cgroups.make("sbx.1", &all_limits()).unwrap();

    // Without a `work` child, the cgroup of the instance holds the workload.
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
fn hierarchies_that_only_limit_have_one_cgroup_per_instance() {
    let Some(base) = TestBase::new("hierarchies_that_only_limit_have_one_cgroup_per_instance") else {
        return;
    };
    base.cgroups.make("sbx.1", &all_limits()).unwrap();

    let (v2, v1): (Vec<_>, Vec<_>) =
        base.directories().into_iter().partition(|it| it.join("cgroup.controllers").exists());
    // Without v2, one of the v1 hierarchies holds the keeper too.
    let with_more = v1.iter().filter(|it| it.join("sbx.1").metadata().is_ok_and(|it| it.nlink() > 2)).count();
    assert!(with_more <= usize::from(v2.is_empty()), "{with_more}");
}

#[test]
fn fifty_processes_are_killed_as_a_whole() {
    let Some(base) = TestBase::new("fifty_processes_are_killed_as_a_whole") else { return };
    let instance = base.cgroups.make("sbx.1", &all_limits()).unwrap();
    let script = "i=0; while [ $i -lt 50 ]; do (trap '' TERM; setsid sleep 60) & i=$((i+1)); done; wait";
    let _worker = Worker::start(script, &instance.work_join_files().unwrap());
    within(SOON, || instance.processes().unwrap().len() > 50);
    assert!(!instance.is_empty().unwrap());

    // From outside, by name alone.
    let instance = base.cgroups.open("sbx.1").unwrap();
    instance.kill_all().unwrap();
    instance.wait_empty(SOON).unwrap();

    assert!(instance.is_empty().unwrap());
    assert_eq!(instance.processes().unwrap(), Vec::<u32>::new());
    instance.remove(SOON).unwrap();
    assert_eq!(base.cgroups.find("sbx.1").unwrap(), Vec::<PathBuf>::new());
}

#[test]
fn killing_the_work_leaves_the_keeper_alive() {
    let Some(base) = TestBase::new("killing_the_work_leaves_the_keeper_alive") else { return };
    let instance = base.cgroups.make("sbx.1", &all_limits()).unwrap();
    let mut keeper = Worker::start("sleep 60", &instance.keeper_join_files().unwrap());
    let mut work = Worker::start("sleep 60", &instance.work_join_files().unwrap());

    instance.kill_work().unwrap();
    let ended = work.wait();

    assert!(!ended.success());
    assert!(keeper.is_alive());
    assert!(instance.processes().unwrap().contains(&keeper.id()));
    instance.kill_all_and_wait(SOON).unwrap();
    assert!(!keeper.wait().success());
}

#[test]
fn a_process_joins_through_inherited_descriptors() {
    let Some(base) = TestBase::new("a_process_joins_through_inherited_descriptors") else { return };
    let limits = CgroupLimits { processes: Some(20), ..CgroupLimits::default() };
    let instance = base.cgroups.make("sbx.1", &limits).unwrap();
    let join_files = instance.work_join_files().unwrap();
    let groups = join_files.len();

    let worker = Worker::start_joining("exec sleep 60", join_files);

    let in_ours = || {
        let text = fs::read_to_string(format!("/proc/{}/cgroup", worker.id())).unwrap();
        text.lines().filter(|line| line.ends_with("/sbx.1/work") || line.ends_with("/sbx.1")).count()
    };
    within(SOON, || in_ours() == groups);
    instance.kill_all_and_wait(SOON).unwrap();
}

#[test]
fn a_process_that_joined_only_some_cgroups_is_killed() {
    let Some(base) = TestBase::new("a_process_that_joined_only_some_cgroups_is_killed") else { return };
    let instance = base.cgroups.make("sbx.1", &all_limits()).unwrap();
    let last = instance.work_join_files().unwrap().pop().unwrap();
    let mut half_in = Worker::start("sleep 60", &[last]);

    instance.kill_all_and_wait(SOON).unwrap();

    assert!(!half_in.wait().success());
    instance.remove(SOON).unwrap();
}

#[test]
fn a_process_beyond_the_limit_is_refused_and_counted() {
    let Some(base) = TestBase::new("a_process_beyond_the_limit_is_refused_and_counted") else { return };
    let limits = CgroupLimits { processes: Some(4), ..CgroupLimits::default() };
    let instance = base.cgroups.make("sbx.1", &limits).unwrap();

    let script = "for i in 1 2 3 4 5 6 7 8; do sleep 60 & done; wait";
    let _worker = Worker::start(script, &instance.work_join_files().unwrap());

    within(SOON, || instance.limit_events().pids_refused.is_some_and(|it| it > 0));
    assert!(instance.usage().processes.is_some_and(|it| it <= 4));
    assert!(instance.processes().unwrap().len() <= 4);
}

#[test]
fn memory_beyond_the_limit_is_fatal_and_counted() {
    let Some(base) = TestBase::new("memory_beyond_the_limit_is_fatal_and_counted") else { return };
    let limits = CgroupLimits { memory_bytes: Some(16 << 20), ..CgroupLimits::default() };
    let instance = base.cgroups.make("sbx.1", &limits).unwrap();

    // One buffer of 64 MiB, filled once.
    let script = "exec dd if=/dev/zero of=/dev/null bs=64M count=1 2>/dev/null";
    let mut worker = Worker::start(script, &instance.work_join_files().unwrap());
    let ended = worker.wait();

    assert!(!ended.success());
    let events = instance.limit_events();
    assert!(events.memory_kills.is_some_and(|it| it > 0), "{events:?}");
    assert!(events.memory_reached.is_some(), "{events:?}");
    assert!(instance.usage().memory_peak_bytes.is_none_or(|it| it <= 16 << 20));
}

#[test]
fn usage_grows_with_work() {
    let Some(base) = TestBase::new("usage_grows_with_work") else { return };
    let instance = base.cgroups.make("sbx.1", &all_limits()).unwrap();
    let before = instance.usage();

    let script = "x=$(head -c 4000000 /dev/zero | tr '\\0' x); i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; sleep 60";
    let _worker = Worker::start(script, &instance.work_join_files().unwrap());

    within(SOON, || instance.usage().cpu_ms > before.cpu_ms.map(|it| it + 20));
    within(SOON, || instance.usage().memory_bytes > before.memory_bytes.map(|it| it + 2_000_000));
    let usage = instance.usage();
    assert!(usage.memory_peak_bytes.is_none_or(|it| it > 2_000_000), "{usage:?}");
    assert!(usage.processes >= Some(1), "{usage:?}");
    assert!(usage.io_read_bytes.is_some(), "{usage:?}");
}

#[test]
fn usage_of_a_missing_instance_is_none() {
    let Some(base) = TestBase::new("usage_of_a_missing_instance_is_none") else { return };

    let instance = base.cgroups.open("never.1").unwrap();

    assert_eq!(instance.usage(), Default::default());
    assert_eq!(instance.limit_events(), Default::default());
    assert!(instance.is_empty().unwrap());
    instance.kill_all().unwrap();
    instance.remove(SOON).unwrap();
}

#[test]
fn cgroups_nested_below_work_are_removed() {
    let Some(base) = TestBase::new("cgroups_nested_below_work_are_removed") else { return };
    let instance = base.cgroups.make("sbx.1", &all_limits()).unwrap();
    for directory in base.cgroups.find("sbx.1").unwrap() {
        let deep: PathBuf = (0..20).map(|depth| format!("n{depth}")).collect();
        fs::create_dir_all(directory.join("work").join(deep)).unwrap();
        fs::create_dir_all(directory.join("work/wide/a")).unwrap();
        fs::create_dir_all(directory.join("stray/b")).unwrap();
    }

    instance.remove(SOON).unwrap();

    assert_eq!(base.cgroups.find("sbx.1").unwrap(), Vec::<PathBuf>::new());
}

#[test]
fn a_cgroup_with_a_process_is_named_and_not_removed() {
    let Some(base) = TestBase::new("a_cgroup_with_a_process_is_named_and_not_removed") else { return };
    let instance = base.cgroups.make("sbx.1", &all_limits()).unwrap();
    let mut worker = Worker::start("sleep 60", &instance.work_join_files().unwrap());

    let error = instance.remove(Duration::from_millis(20)).unwrap_err();

    assert!(error.left().ends_with("sbx.1"), "{error}");
    assert!(worker.is_alive());
    assert!(instance.processes().unwrap().contains(&worker.id()));
}

#[test]
fn partly_created_and_partly_removed_instances_are_found() {
    let Some(base) = TestBase::new("partly_created_and_partly_removed_instances_are_found") else { return };
    base.cgroups.make("whole.1", &all_limits()).unwrap();
    for directory in base.cgroups.find("whole.1").unwrap() {
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
fn another_process_joins_existing_cgroups_only() {
    let Some(base) = TestBase::new("another_process_joins_existing_cgroups_only") else { return };
    let made = base.cgroups.make("sbx.1", &CgroupLimits::default()).unwrap();

    let opened = Cgroups::detect(&base.name).unwrap().open("sbx.1").unwrap();

    assert_eq!(opened.work_join_files().unwrap().len(), made.work_join_files().unwrap().len());
    assert_eq!(opened.keeper_join_files().unwrap().len(), made.keeper_join_files().unwrap().len());
    assert!(base.cgroups.open("never.1").unwrap().work_join_files().is_err());
}

/// As if created by a process in another cgroup.
#[test]
fn an_instance_created_from_another_cgroup_is_found_and_removed() {
    let Some(base) = TestBase::new("an_instance_created_from_another_cgroup_is_found_and_removed") else {
        return;
    };
    base.cgroups.make("own.1", &all_limits()).unwrap();
    let has_limits = |it: &&Path| {
        ["pids.events", "work/pids.events"].iter().any(|file| it.join("own.1").join(file).exists())
    };
    let directories = base.directories();
    let Some(home) = directories.iter().map(PathBuf::as_path).find(has_limits) else {
        return;
    };
    if home.join("cgroup.controllers").exists() {
        // On v2 all processes use the same base.
        return;
    }
    let theirs = TestDirectory::new(home.parent().unwrap().join(format!("{}.theirs", base.name)));
    fs::create_dir_all(theirs.path.join(&base.name).join("far.1/work")).unwrap();

    assert_eq!(base.cgroups.discover().unwrap(), ["far.1", "own.1"]);
    base.cgroups.open("far.1").unwrap().remove(SOON).unwrap();
    assert_eq!(base.cgroups.find("far.1").unwrap(), Vec::<PathBuf>::new());
    base.cgroups.remove_empty_bases().unwrap();

    assert!(!theirs.path.join(&base.name).exists());
}

#[test]
fn a_base_in_use_stays_and_a_removed_base_is_created_again() {
    let name = "a_base_in_use_stays_and_a_removed_base_is_created_again";
    let Some(base) = TestBase::new(name) else { return };
    let instance = base.cgroups.make("sbx.1", &all_limits()).unwrap();

    base.cgroups.remove_empty_bases().unwrap();
    assert!(!instance.existing().unwrap().is_empty());

    instance.remove(SOON).unwrap();
    base.cgroups.remove_empty_bases().unwrap();
    assert_eq!(base.directories(), Vec::<PathBuf>::new());
    base.cgroups.make("sbx.1", &all_limits()).unwrap();
}

#[test]
fn killing_an_execution_kills_its_orphans_and_no_other_execution() {
    let name = "killing_an_execution_kills_its_orphans_and_no_other_execution";
    let Some(base) = TestBase::new(name) else { return };
    let instance = base.cgroups.make("sbx.1", &all_limits()).unwrap();
    let (one, two) = (instance.execution("exe_1").unwrap(), instance.execution("exe_2").unwrap());
    one.make().unwrap();
    one.make().unwrap();
    two.make().unwrap();
    let join = |it: &pinfold_linux::cgroup::ExecutionCgroup| {
        instance.work_join_files().unwrap().into_iter().chain([it.join_file().unwrap()]).collect::<Vec<_>>()
    };
    // The first shell exits at once; its child is an orphan in its own session.
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
    instance.kill_all_and_wait(SOON).unwrap();
    instance.remove(SOON).unwrap();
}

#[test]
fn a_keeper_that_is_not_root_starts_executions_and_sets_no_limits() {
    let name = "a_keeper_that_is_not_root_starts_executions_and_sets_no_limits";
    let Some(base) = TestBase::new_as_root(name) else { return };
    let instance = base.cgroups.make("sbx.1", &all_limits()).unwrap();
    instance.delegate_to(65534, 65534).unwrap();
    let execution = instance.execution("exe_1").unwrap();
    let tracked = base.cgroups.find("sbx.1").unwrap().remove(0);

    let work = tracked.join("work");
    let start =
        format!("mkdir {0}/exe_1 && echo 0 > {0}/exe_1/cgroup.procs && exec sleep 60", work.display());
    let script = format!("exec setpriv --reuid 65534 --regid 65534 --clear-groups sh -c '{start}'");
    let worker = Worker::start(&script, &instance.keeper_join_files().unwrap());

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
        assert!(base.cgroups.find(name).is_err());
    }
    assert!(!base.directories().iter().any(|it| Path::new(it).join("x").exists()));
}
