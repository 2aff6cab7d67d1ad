//! Probes, processes and usage of an instance, for a person who asks what is wrong with it.

use super::harness::{Harness, fails};
use crate::{InMemoryContent, InstanceFault, InstanceId, ProcessInfo};

async fn processes(harness: &Harness, instance: InstanceId) -> Vec<ProcessInfo> {
    let listed = harness.provider.inspect().processes(instance).await;
    listed.unwrap_or_else(|error| panic!("the processes of {instance:?} cannot be listed: {error}"))
}

fn has_sleep(processes: &[ProcessInfo]) -> bool {
    processes.iter().any(|process| process.name == "sleep")
}

pub(super) async fn every_probe_passes_in_a_live_instance(harness: Harness) {
    let instance = harness.started().await;

    let reports = harness.provider.inspect().examine(instance).await;

    assert!(!reports.is_empty(), "nothing was examined");
    let sound = reports.iter().all(|report| report.passed && report.fault.is_none());
    assert!(sound, "a probe of a live instance failed: {reports:?}");
}

pub(super) async fn a_stopped_instance_fails_probes_because_process_1_is_gone(harness: Harness) {
    let instance = harness.started().await;
    harness.stopped(instance).await;

    let reports = harness.provider.inspect().examine(instance).await;

    let is_consistent = reports.iter().all(|report| report.passed == report.fault.is_none());
    assert!(is_consistent, "a failed probe names no fault, or a passed one does: {reports:?}");
    let gone = reports.iter().any(|report| report.fault == Some(InstanceFault::KeeperGone));
    assert!(gone, "no probe reports that process 1 is gone: {reports:?}");
}

pub(super) async fn a_running_command_is_among_the_processes_until_its_end(harness: Harness) {
    let instance = harness.started().await;
    let before = processes(&harness, instance).await;
    let execution = harness.fixture.fresh_execution();

    harness.run_as(instance, execution, &["sleep", "1000"]).await;
    let meanwhile = processes(&harness, instance).await;
    harness.provider.kill(instance, execution).await;
    harness.outcome(instance, execution).await;

    assert!(!has_sleep(&before), "a process before its start: {before:?}");
    assert!(has_sleep(&meanwhile), "a running command is missing: {meanwhile:?}");
    let after = processes(&harness, instance).await;
    assert!(!has_sleep(&after), "a process after its end: {after:?}");
}

pub(super) async fn processes_of_a_missing_instance_cannot_be_listed(harness: Harness) {
    let never_was = harness.fresh_instance();
    let ended = harness.started().await;
    harness.stopped(ended).await;

    for instance in [never_was, ended] {
        let listed = harness.provider.inspect().processes(instance).await;
        fails(&listed, "listing the processes of a missing instance");
    }
}

pub(super) async fn total_usage_is_known_of_a_live_instance_and_not_of_a_missing_one(harness: Harness) {
    let (never_was, instance) = (harness.fresh_instance(), harness.started().await);
    harness.sh(instance, "true").await;

    let used = harness.provider.inspect().total_usage(instance).await;

    assert!(
        used.is_some_and(|used| used.cpu_ms.is_some()),
        "the usage of a live instance is unknown: {used:?}"
    );
    assert_eq!(harness.provider.inspect().total_usage(never_was).await, None, "usage of a missing instance");
}

pub(super) async fn usage_counts_executions_output_and_file_requests(harness: Harness) {
    let instance = harness.started().await;
    let operations = async || {
        let usage = harness.provider.usage(instance).await;
        usage.unwrap_or_else(|error| panic!("usage of a live instance failed: {error}")).operations
    };
    let before = operations().await;

    harness.sh(instance, "true").await;
    let after_run = operations().await;
    harness.sh(instance, "echo one").await;
    let after_output = operations().await;
    let content = &mut InMemoryContent::new(b"content".to_vec());
    let written = harness.provider.files().write(instance, b"file", None, content).await;
    assert_eq!(written, Ok(7));
    let after_write = operations().await;

    assert!(after_run > before, "an execution does not count");
    assert!(after_output >= after_run + 2, "output does not count");
    assert!(after_write > after_output, "a file request does not count");
}
