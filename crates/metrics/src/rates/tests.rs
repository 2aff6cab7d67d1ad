//! Rates and averages, worked out by hand.

use pinfold_lifecycle::{NoRoom, Scarcity};

use super::*;
use crate::Cleaned;

/// So many executions of a cause, of which so many failed.
fn executions(agent_type: &str, by_cause: &[(&str, u64)], failed: u64) -> Sums {
    let mut sums = Sums::default();
    for (cause, number) in by_cause {
        sums.add(EXECUTIONS, &[agent_type, cause], *number);
    }
    sums.add(FAILURES, &[agent_type], failed);
    sums
}

#[test]
fn where_nothing_happened_no_rate_is_known() {
    let none = Sums::default();

    assert_eq!(none.rates(), Rates::default());
    assert_eq!(none.utilisation(), Utilisation::default());
    assert_eq!(none.cleanup(), None);
    assert!(none.by_agent_type().is_empty());
}

#[test]
fn rates_are_those_worked_out_by_hand() {
    let mut sums = executions("none", &[("completed", 15), ("time_limit", 1), ("inactivity", 4)], 5);
    sums.add(TIMEOUTS, &["none"], 1);
    sums.add(INACTIVITY, &["none"], 4);
    sums.add(STOP_ATTEMPTS, &["gone"], 19);
    sums.add(STOP_ATTEMPTS, &["still_present"], 1);
    sums.add(TIMEOUT_CLEANUPS, &["gone"], 9);
    sums.add(TIMEOUT_CLEANUPS, &["quarantined"], 1);
    sums.add(PROBES, &["probe", "passed"], 6);
    sums.add(PROBES, &["probe", "failed"], 1);
    sums.add(PROBES, &["probe", "unknown"], 1);
    sums.add(PROBES, &["ping", "failed"], 100);

    let rates = sums.rates();

    assert_eq!(rates.failure, Some(0.25));
    assert_eq!((rates.timeout, rates.inactivity), (Some(0.05), Some(0.2)));
    assert_eq!((rates.stop_success, rates.timeout_cleanup_success), (Some(0.95), Some(0.9)));
    assert_eq!(rates.health_check_failure, Some(0.25));
}

#[test]
fn a_start_that_came_to_nothing_is_a_failure_too() {
    let mut sums = executions("none", &[("completed", 3)], 0);
    sums.add(STARTS_FAILED, &[], 1);

    assert_eq!(sums.rates().failure, Some(0.25));
    assert_eq!(sums.rates().timeout, Some(0.0));
}

#[test]
fn each_type_of_agent_has_its_own_figures_and_null_where_nothing_was_counted() {
    let mut sums = executions("VALIDATION", &[("completed", 3), ("exit_nonzero", 1)], 1);
    sums.merge(&executions("TEST_WRITER", &[("cancelled", 2)], 0));
    sums.took(Latency::Execution, &["VALIDATION"], 1_000);
    sums.took(Latency::Execution, &["VALIDATION"], 3_000);
    sums.add(CPU, &["VALIDATION"], 500);
    sums.add(CPU_COUNTED, &["VALIDATION"], 2);
    sums.add(MEMORY_PEAKS, &["VALIDATION"], 300);
    sums.add(MEMORY_COUNTED, &["VALIDATION"], 3);

    let by_type = sums.by_agent_type();

    let validation = AgentFigures {
        executions: 4,
        success_rate: Some(0.75),
        failure_rate: Some(0.25),
        execution_seconds: Some(2.0),
        cpu_seconds: Some(0.25),
        memory_peak_bytes: Some(100.0),
    };
    let writer = AgentFigures {
        executions: 2,
        success_rate: Some(0.0),
        failure_rate: Some(0.0),
        ..AgentFigures::default()
    };
    let expected = [("TEST_WRITER".to_owned(), writer), ("VALIDATION".to_owned(), validation)];
    assert_eq!(by_type, BTreeMap::from(expected));
}

#[test]
fn the_largest_peak_of_many_minutes_is_the_largest_of_them() {
    let minute = |peak| {
        let mut sums = Sums::default();
        sums.add(MEMORY_PEAKS, &["none"], peak);
        sums.add(MEMORY_COUNTED, &["none"], 1);
        sums.add(&memory_peak(), &[], peak);
        sums
    };
    let mut all = Sums::default();
    for peak in [10, 40, 20] {
        all.merge(&minute(peak));
    }

    let used = all.utilisation();

    assert_eq!((used.memory_peak_bytes_total, used.memory_peak_bytes_max), (Some(70), Some(40)));
    assert_eq!(used.cpu_seconds_total, None);
}

#[test]
fn runs_of_cleanup_add_up_and_the_last_one_is_told() {
    let run = |succeeded, at_s| Cleaned {
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
    let mut sums = Sums::default();
    for (succeeded, at_s) in [(true, 100), (true, 400), (true, 700), (false, 1_000)] {
        sums.cleaned(&run(succeeded, at_s));
    }
    sums.forgot(4);

    let cleanup = sums.cleanup().unwrap();

    assert_eq!((cleanup.runs, cleanup.success_rate, cleanup.scanned), (4, 0.75, 40));
    assert_eq!((cleanup.orphaned_found, cleanup.orphaned_ended, cleanup.stuck_ended), (8, 4, 12));
    assert_eq!((cleanup.evicted, cleanup.old_deleted, cleanup.failed), (20, 4, 4));
    assert_eq!((cleanup.seconds_average, cleanup.last_run_s), (Some(2.0), Some(1_000)));
}

#[test]
fn runs_are_timed_by_layer_and_all_together() {
    let run = |layer, took_ms| Cleaned {
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
    let mut sums = Sums::default();
    sums.cleaned(&run("scheduled", 1_000));
    sums.cleaned(&run("reconcile", 3_000));

    let by_layer = sums.cleanup_times();

    let mean = |layer| by_layer[layer].mean();
    assert_eq!((mean("scheduled"), mean("reconcile"), mean("pressure")), (Some(1.0), Some(3.0), None));
    assert_eq!(sums.cleanup().unwrap().seconds_average, Some(2.0));
}

#[test]
fn a_run_that_was_lost_lowers_the_rate_and_is_not_timed() {
    let mut sums = Sums::default();
    sums.count(CLEANUP_RUNS, &["scheduled", SUCCEEDED]);

    sums.lost_cleanup("scheduled");

    let cleanup = sums.cleanup().unwrap();
    assert_eq!((cleanup.runs, cleanup.success_rate), (2, 0.5));
    assert_eq!((cleanup.seconds_average, cleanup.last_run_s), (None, None));
}

#[test]
fn what_the_host_has_no_room_for_is_told_apart_from_what_a_limit_refuses() {
    let mut sums = Sums::default();

    for reason in Scarcity::WORDS.into_iter().chain(NoRoom::WORDS) {
        sums.count(REFUSED, &[reason]);
    }

    assert_eq!(sums.refused_by_host(), NoRoom::WORDS.len() as u64);
}
