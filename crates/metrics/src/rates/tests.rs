//! Rates and averages, checked against values computed by hand.

use pinfold_lifecycle::{AdmissionRefusal, HostShortage};

use super::*;
use crate::CleanupRun;

/// Executions of an agent type by cause, with a number of failures.
fn executions(agent_type: &str, by_cause: &[(&str, u64)], failed: u64) -> Counters {
    let mut counters = Counters::default();
    for (cause, number) in by_cause {
        counters.add(EXECUTIONS, &[agent_type, cause], *number);
    }
    counters.add(FAILURES, &[agent_type], failed);
    counters
}

#[test]
fn without_events_no_rate_is_known() {
    let none = Counters::default();

    assert_eq!(none.rates(), Rates::default());
    assert_eq!(none.utilisation(), Utilisation::default());
    assert_eq!(none.cleanup(), None);
    assert!(none.by_agent_type().is_empty());
}

#[test]
fn rates_match_values_computed_by_hand() {
    let mut counters = executions("none", &[("completed", 15), ("time_limit", 1), ("inactivity", 4)], 5);
    counters.add(TIMEOUTS, &["none"], 1);
    counters.add(INACTIVITY, &["none"], 4);
    counters.add(STOP_ATTEMPTS, &["gone"], 19);
    counters.add(STOP_ATTEMPTS, &["still_present"], 1);
    counters.add(TIMEOUT_CLEANUPS, &["gone"], 9);
    counters.add(TIMEOUT_CLEANUPS, &["quarantined"], 1);
    counters.add(PROBES, &["probe", "passed"], 6);
    counters.add(PROBES, &["probe", "failed"], 1);
    counters.add(PROBES, &["probe", "unknown"], 1);
    counters.add(PROBES, &["ping", "failed"], 100);

    let rates = counters.rates();

    assert_eq!(rates.failure, Some(0.25));
    assert_eq!((rates.timeout, rates.inactivity), (Some(0.05), Some(0.2)));
    assert_eq!((rates.stop_success, rates.timeout_cleanup_success), (Some(0.95), Some(0.9)));
    assert_eq!(rates.health_check_failure, Some(0.25));
}

#[test]
fn failed_start_counts_as_failure() {
    let mut counters = executions("none", &[("completed", 3)], 0);
    counters.add(STARTS_FAILED, &[], 1);

    assert_eq!(counters.rates().failure, Some(0.25));
    assert_eq!(counters.rates().timeout, Some(0.0));
}

#[test]
fn each_agent_type_has_its_own_metrics_and_null_without_data() {
    let mut counters = executions("VALIDATION", &[("completed", 3), ("exit_nonzero", 1)], 1);
    counters.merge(&executions("TEST_WRITER", &[("cancelled", 2)], 0));
    counters.record(Latency::Execution, &["VALIDATION"], 1_000);
    counters.record(Latency::Execution, &["VALIDATION"], 3_000);
    counters.add(CPU, &["VALIDATION"], 500);
    counters.add(CPU_COUNTED, &["VALIDATION"], 2);
    counters.add(MEMORY_PEAKS, &["VALIDATION"], 300);
    counters.add(MEMORY_COUNTED, &["VALIDATION"], 3);

    let by_type = counters.by_agent_type();

    let validation = AgentMetrics {
        executions: 4,
        success_rate: Some(0.75),
        failure_rate: Some(0.25),
        execution_seconds: Some(2.0),
        cpu_seconds: Some(0.25),
        memory_peak_bytes: Some(100.0),
    };
    let writer = AgentMetrics {
        executions: 2,
        success_rate: Some(0.0),
        failure_rate: Some(0.0),
        ..AgentMetrics::default()
    };
    let expected = [("TEST_WRITER".to_owned(), writer), ("VALIDATION".to_owned(), validation)];
    assert_eq!(by_type, BTreeMap::from(expected));
}

#[test]
fn peak_of_many_minutes_is_their_maximum() {
    let minute = |peak| {
        let mut counters = Counters::default();
        counters.add(MEMORY_PEAKS, &["none"], peak);
        counters.add(MEMORY_COUNTED, &["none"], 1);
        counters.add(&memory_peak(), &[], peak);
        counters
    };
    let mut all = Counters::default();
    for peak in [10, 40, 20] {
        all.merge(&minute(peak));
    }

    let used = all.utilisation();

    assert_eq!((used.memory_peak_bytes_total, used.memory_peak_bytes_max), (Some(70), Some(40)));
    assert_eq!(used.cpu_seconds_total, None);
}

#[test]
fn cleanup_runs_add_up_and_the_last_time_is_shown() {
    let run = |succeeded, at_s| CleanupRun {
        layer: "scheduled",
        succeeded,
        at_s,
        took_ms: 2_000,
        scanned: 10,
        orphaned_found: 2,
        orphaned_ended: 1,
        stuck_ended: 3,
        evicted: 5,
        failed: 1,
    };
    let mut counters = Counters::default();
    for (succeeded, at_s) in [(true, 100), (true, 400), (true, 700), (false, 1_000)] {
        counters.count_cleanup(&run(succeeded, at_s));
    }
    counters.count_deleted_records(4);

    let cleanup = counters.cleanup().unwrap();

    assert_eq!((cleanup.runs, cleanup.success_rate, cleanup.scanned), (4, 0.75, 40));
    assert_eq!((cleanup.orphaned_found, cleanup.orphaned_ended, cleanup.stuck_ended), (8, 4, 12));
    assert_eq!((cleanup.evicted, cleanup.old_deleted, cleanup.failed), (20, 4, 4));
    assert_eq!((cleanup.seconds_average, cleanup.last_run_s), (Some(2.0), Some(1_000)));
}

#[test]
fn cleanup_durations_are_kept_by_layer_and_in_total() {
    let run = |layer, took_ms| CleanupRun {
        layer,
        succeeded: true,
        at_s: 100,
        took_ms,
        scanned: 0,
        orphaned_found: 0,
        orphaned_ended: 0,
        stuck_ended: 0,
        evicted: 0,
        failed: 0,
    };
    let mut counters = Counters::default();
    counters.count_cleanup(&run("scheduled", 1_000));
    counters.count_cleanup(&run("reconcile", 3_000));

    let by_layer = counters.cleanup_times();

    let mean = |layer| by_layer[layer].mean();
    assert_eq!((mean("scheduled"), mean("reconcile"), mean("pressure")), (Some(1.0), Some(3.0), None));
    assert_eq!(counters.cleanup().unwrap().seconds_average, Some(2.0));
}

#[test]
fn lost_cleanup_run_lowers_the_rate_and_is_not_timed() {
    let mut counters = Counters::default();
    counters.count(CLEANUP_RUNS, &["scheduled", SUCCEEDED]);

    counters.count_lost_cleanup("scheduled");

    let cleanup = counters.cleanup().unwrap();
    assert_eq!((cleanup.runs, cleanup.success_rate), (2, 0.5));
    assert_eq!((cleanup.seconds_average, cleanup.last_run_s), (None, None));
}

#[test]
fn host_refusals_are_distinguished_from_limit_refusals() {
    let mut counters = Counters::default();

    for reason in AdmissionRefusal::WORDS.into_iter().chain(HostShortage::WORDS) {
        counters.count(REFUSED, &[reason]);
    }

    assert_eq!(counters.refused_by_host(), HostShortage::WORDS.len() as u64);
}

#[test]
fn exits_and_limits_have_rates_of_their_own() {
    let mut counters = Counters::default();
    for (cause, number) in
        [("completed", 4), ("exit_nonzero", 2), ("memory_limit", 1), ("output_limit", 1), ("time_limit", 2)]
    {
        counters.add(EXECUTIONS, &["none", cause], number);
    }

    let rates = counters.rates();

    assert_eq!((rates.failure, rates.nonzero_exit, rates.limit), (Some(0.0), Some(0.2), Some(0.2)));
}
