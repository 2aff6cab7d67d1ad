//! Handwritten histories, and what is counted of each.

use pinfold_lifecycle::{Generation, NodeId};

use super::*;
use crate::AgentTypes;

const FIRST: ExecutionId = ExecutionId(1);

/// Counts a history, given as times and facts.
fn counted(history: &[(i64, Fact)]) -> Counters {
    counted_with(history, None)
}

fn counted_with(history: &[(i64, Fact)], used: Option<ResourceUsage>) -> Counters {
    let record = |(at, fact): &(i64, Fact)| Record { at: Timestamp(*at), by: NodeId(1), fact: fact.clone() };
    let records: Vec<_> = history.iter().map(record).collect();
    let agent_type = &AgentTypes::known(["VALIDATION"]).label(Some("VALIDATION"));
    let mut counters = Counters::default();
    for (place, record) in records.iter().enumerate() {
        count_entry(&mut counters, &HistoryEntry { record, earlier: &records[..place], agent_type, used });
    }
    counters
}

fn launch(generation: u64) -> Fact {
    Fact::LaunchBegan { generation: Generation(generation) }
}

fn ready() -> Fact {
    Fact::BecameReady { generation: Generation(1) }
}

fn stop(attempt: u32) -> Fact {
    Fact::StopBegan { generation: Generation(1), attempt, forced: false }
}

fn stop_failed(failure: StopFailure) -> Fact {
    Fact::StopFailed { generation: Generation(1), attempt: 1, failure }
}

fn freed() -> Fact {
    Fact::LeaseFreed { generation: Generation(1) }
}

fn ended(cause: Cause) -> Fact {
    Fact::Ended { cause }
}

fn execution_ended(outcome: Outcome) -> Fact {
    Fact::ExecutionEnded { execution: FIRST, outcome }
}

fn a_life(cause: Cause, outcome: Outcome) -> Vec<(i64, Fact)> {
    vec![
        (0, Fact::Created),
        (0, Fact::ExecutionQueued { execution: FIRST }),
        (0, launch(1)),
        (20, Fact::Launched { generation: Generation(1) }),
        (40, ready()),
        (42, Fact::ExecutionStarted { execution: FIRST }),
        (1_042, execution_ended(outcome)),
        (2_000, Fact::EndDecided { cause }),
        (2_000, stop(1)),
        (2_005, freed()),
        (2_005, ended(cause)),
    ]
}

#[test]
fn complete_life_is_counted_and_timed() {
    let used = ResourceUsage { cpu_ms: Some(7), memory_peak_bytes: Some(9), ..ResourceUsage::default() };

    let counters = counted_with(&a_life(Cause::StoppedByUser, Outcome::exited(0)), Some(used));

    let mean = |what| counters.total_histogram(what).mean();
    assert_eq!((mean(Latency::Create), mean(Latency::ExecStart)), (Some(0.04), Some(0.042)));
    assert_eq!((mean(Latency::Execution), mean(Latency::Stop)), (Some(1.0), Some(0.005)));
    assert_eq!(mean(Latency::Lifetime), Some(2.005));
    assert_eq!(counters.get(EXECUTIONS, &["VALIDATION", "completed"]), 1);
    assert_eq!((counters.total(FAILURES), counters.total(STARTS_FAILED)), (0, 0));
    assert_eq!(counters.get(ENDED, &["stopped_by_user"]), 1);
    assert_eq!(counters.get(STOP_ATTEMPTS, &["gone"]), 1);
    assert_eq!((counters.get(CPU, &["VALIDATION"]), counters.get(MEMORY_PEAKS, &["VALIDATION"])), (7, 9));
}

#[test]
fn only_platform_failures_count_as_failures_and_timeouts_count_alone() {
    for (outcome, failures, timeouts, inactivity) in [
        (Outcome::exited(0), 0, 0, 0),
        (Outcome::exited(3), 0, 0, 0),
        (Outcome::ended_for(Cause::Cancelled), 0, 0, 0),
        (Outcome::ended_for(Cause::TimeLimit), 0, 1, 0),
        (Outcome::ended_for(Cause::MaxLife), 0, 1, 0),
        (Outcome::ended_for(Cause::Idle), 0, 1, 0),
        (Outcome::ended_for(Cause::Inactivity), 0, 1, 1),
        (Outcome::ended_for(Cause::MemoryLimit), 0, 0, 0),
        (Outcome::lost("gone"), 1, 0, 0),
        (Outcome::ended_for(Cause::ProviderError), 1, 0, 0),
        (Outcome::ended_for(Cause::StartFailed), 1, 0, 0),
        (Outcome::ended_for(Cause::HostRestarted), 1, 0, 0),
    ] {
        let counters = counted(&[(0, execution_ended(outcome.clone()))]);

        let found = (counters.total(FAILURES), counters.total(TIMEOUTS), counters.total(INACTIVITY));
        assert_eq!(found, (failures, timeouts, inactivity), "{outcome:?}");
        assert_eq!(counters.executions(), 1);
    }
}

#[test]
fn duration_without_known_start_is_not_counted() {
    let counters = counted(&[
        (5, Fact::ExecutionStarted { execution: FIRST }),
        (9, ready()),
        (20, ended(Cause::StoppedByUser)),
    ]);

    for what in [Latency::Create, Latency::ExecStart, Latency::Stop, Latency::Lifetime] {
        assert_eq!(counters.total_histogram(what).count(), 0, "{what:?}");
    }
    assert_eq!(counters.total(ENDED), 1);
}

#[test]
fn restart_does_not_count_as_create() {
    let counters = counted(&[(0, Fact::Created), (30, ready()), (90_000, ready())]);

    assert_eq!(counters.histogram(Latency::Create, &[]).mean(), Some(0.03));
}

#[test]
fn retried_execution_counts_one_start_latency() {
    let counters = counted(&[
        (0, Fact::ExecutionQueued { execution: FIRST }),
        (10, Fact::ExecutionStarted { execution: FIRST }),
        (60, Fact::AttemptFailed { generation: Generation(1), cause: Cause::Lost, why: String::new() }),
        (100, Fact::ExecutionStarted { execution: FIRST }),
        (150, execution_ended(Outcome::exited(0))),
    ]);

    assert_eq!(counters.histogram(Latency::ExecStart, &[]).mean(), Some(0.01));
    assert_eq!(counters.total_histogram(Latency::Execution).mean(), Some(0.05));
    assert_eq!(counters.get(ATTEMPTS_FAILED, &["lost"]), 1);
}

#[test]
fn claimed_instance_is_ready_at_once_and_unclaimed_one_is_not_counted() {
    let given_out = counted(&[(0, Fact::Pooled), (30, ready()), (5_000, Fact::Created)]);
    let unclaimed = counted(&[(0, Fact::Pooled), (30, ready()), (5_000, ended(Cause::Idle))]);

    assert_eq!(given_out.histogram(Latency::Create, &[]).mean(), Some(0.0));
    assert_eq!(given_out.histogram(Latency::Create, &[]).count(), 1);
    assert_eq!((unclaimed.total(ENDED), unclaimed.total_histogram(Latency::Create).count()), (0, 0));
}

#[test]
fn failed_and_successful_stop_attempts_are_counted_separately() {
    let still = StopFailure::StillPresent { what: "a process".into() };

    let counters = counted(&[
        (0, Fact::Created),
        (10, Fact::EndDecided { cause: Cause::StoppedByUser }),
        (10, stop(1)),
        (50, stop_failed(still)),
        (60, stop(2)),
        (70, freed()),
        (70, ended(Cause::StoppedByUser)),
    ]);

    assert_eq!(counters.get(STOP_ATTEMPTS, &["still_present"]), 1);
    assert_eq!(counters.get(STOP_ATTEMPTS, &["gone"]), 1);
    assert_eq!(counters.histogram(Latency::Stop, &[]).mean(), Some(0.06));
}

#[test]
fn attestation_is_not_a_proof_and_is_not_timed() {
    let attestation =
        pinfold_lifecycle::Attestation { by: "me".into(), reason: "seen".into(), at: Timestamp(90) };

    let counters = counted(&[
        (0, Fact::EndDecided { cause: Cause::StoppedByUser }),
        (0, stop(5)),
        (40, stop_failed(StopFailure::DeadlinePassed)),
        (40, Fact::Quarantined { generation: Generation(1), failure: StopFailure::DeadlinePassed }),
        (90, Fact::Attested { attestation }),
        (90, freed()),
        (90, ended(Cause::StoppedByUser)),
    ]);

    assert_eq!((counters.get(STOP_ATTEMPTS, &["gone"]), counters.total(STOP_ATTEMPTS)), (0, 1));
    assert_eq!((counters.total(QUARANTINES), counters.total_histogram(Latency::Stop).count()), (1, 0));
}

#[test]
fn failed_start_is_counted_if_no_execution_failed() {
    let failed = |why: &str| Fact::StartFailed {
        generation: Generation(1),
        cause: Cause::StartFailed,
        why: why.into(),
    };
    let bare = counted(&[(0, Fact::Created), (9, failed("no image")), (9, ended(Cause::StartFailed))]);
    let with_work = counted(&[
        (0, Fact::Created),
        (0, Fact::ExecutionQueued { execution: FIRST }),
        (9, failed("no image")),
        (9, execution_ended(Outcome::failed(Cause::StartFailed, "no image"))),
        (9, ended(Cause::StartFailed)),
    ]);

    assert_eq!((bare.total(STARTS_FAILED), bare.rates().failure), (1, Some(1.0)));
    assert_eq!((with_work.total(STARTS_FAILED), with_work.rates().failure), (0, Some(1.0)));
}

#[test]
fn cancel_is_timed_from_request_to_proof_and_other_ends_are_not() {
    let ending = |cause| {
        counted(&[
            (0, Fact::ExecutionStarted { execution: FIRST }),
            (100, Fact::ExecutionEnding { execution: FIRST, cause }),
            (103, execution_ended(Outcome::ended_for(cause))),
        ])
    };

    assert_eq!(ending(Cause::Cancelled).histogram(Latency::Cancel, &[]).mean(), Some(0.003));
    assert_eq!(ending(Cause::TimeLimit).histogram(Latency::Cancel, &[]).count(), 0);
}

#[test]
fn instance_without_lease_is_an_orphan() {
    let counters = counted(&[
        (0, Fact::StrayFound { generation: Generation(3) }),
        (0, stop(1)),
        (4, freed()),
        (4, ended(Cause::Orphan)),
    ]);

    assert_eq!((counters.total(ORPHANS), counters.get(ENDED, &["orphan"])), (1, 1));
    assert_eq!(orphaned(&counters), (1, 1));
    assert_eq!(counters.total_histogram(Latency::Lifetime).count(), 0);
}

/// Found and ended orphans, as cleanup counts them.
fn orphaned(counters: &Counters) -> (u64, u64) {
    (counters.get(CLEANUP_ITEMS, &[ORPHANED_FOUND]), counters.get(CLEANUP_ITEMS, &[ORPHANED_ENDED]))
}

#[test]
fn stray_is_ended_only_by_the_proof_that_follows_it() {
    let stray = || Fact::StrayFound { generation: Generation(3) };
    let attestation =
        pinfold_lifecycle::Attestation { by: "me".into(), reason: "seen".into(), at: Timestamp(90) };

    let found_only = counted(&[(0, stray()), (0, stop(1))]);
    let after_its_sandbox = counted(&[(0, freed()), (5, stray()), (5, stop(1)), (9, freed())]);
    let twice = counted(&[(0, stray()), (4, freed()), (9, stray()), (9, freed()), (12, freed())]);
    let on_a_word = counted(&[(0, stray()), (90, Fact::Attested { attestation }), (90, freed())]);
    let wanted = counted(&a_life(Cause::StoppedByUser, Outcome::exited(0)));

    assert_eq!((orphaned(&found_only), orphaned(&after_its_sandbox)), ((1, 0), (1, 1)));
    assert_eq!((orphaned(&twice), orphaned(&on_a_word), orphaned(&wanted)), ((2, 2), (1, 0), (0, 0)));
}

#[test]
fn start_has_failed_if_the_sandbox_was_never_used() {
    let queued = Fact::ExecutionQueued { execution: FIRST };

    assert!(is_failed_start(Cause::StartDeadline, [&Fact::Created]));
    assert!(!is_failed_start(Cause::StartDeadline, [&Fact::Created, &queued]));
    assert!(!is_failed_start(Cause::Lost, [&Fact::Created, &ready()]));
    assert!(!is_failed_start(Cause::StoppedByUser, [&Fact::Created]));
}

/// Timeout cleanups: proven gone, and quarantined.
fn cleaned_up(counters: &Counters) -> (u64, u64) {
    (counters.get(TIMEOUT_CLEANUPS, &[GONE]), counters.get(TIMEOUT_CLEANUPS, &[QUARANTINED]))
}

fn ending(cause: Cause) -> Fact {
    Fact::ExecutionEnding { execution: FIRST, cause }
}

fn quarantined() -> Fact {
    Fact::Quarantined { generation: Generation(1), failure: StopFailure::DeadlinePassed }
}

#[test]
fn timeout_cleanup_counts_when_proven_gone() {
    let sandbox = |cause| {
        let fate = [Fact::Created, ready(), Fact::EndDecided { cause }, stop(1), freed(), ended(cause)];
        cleaned_up(&counted(&fate.map(|fact| (0, fact))))
    };
    let execution = |cause| {
        let fate = [ready(), ending(cause), execution_ended(Outcome::ended_for(cause))];
        cleaned_up(&counted(&fate.map(|fact| (0, fact))))
    };

    for cause in [Cause::TimeLimit, Cause::Inactivity, Cause::Idle, Cause::MaxLife] {
        assert_eq!((sandbox(cause), execution(cause)), ((1, 0), (1, 0)), "{cause:?}");
    }
    for cause in [Cause::StoppedByUser, Cause::Cancelled, Cause::MemoryLimit] {
        assert_eq!((sandbox(cause), execution(cause)), ((0, 0), (0, 0)), "{cause:?}");
    }
}

#[test]
fn execution_ended_by_its_sandbox_timeout_counts_one_cleanup() {
    let counters = counted(&a_life(Cause::StoppedByUser, Outcome::exited(0)));
    let together = counted(&[
        (0, Fact::Created),
        (9, Fact::EndDecided { cause: Cause::MaxLife }),
        (9, stop(1)),
        (12, freed()),
        (12, execution_ended(Outcome::ended_for(Cause::MaxLife))),
        (12, ended(Cause::MaxLife)),
    ]);

    assert_eq!((cleaned_up(&counters), cleaned_up(&together)), ((0, 0), (1, 0)));
}

#[test]
fn quarantined_timeout_stays_a_failed_cleanup_after_a_late_proof() {
    let sandbox = counted(&[
        (0, Fact::Created),
        (9, Fact::EndDecided { cause: Cause::MaxLife }),
        (9, stop(5)),
        (40, quarantined()),
        (90_000, freed()),
        (90_000, ended(Cause::MaxLife)),
    ]);
    let execution = counted(&[
        (0, ready()),
        (5, ending(Cause::TimeLimit)),
        (9, Fact::EndDecided { cause: Cause::ProviderError }),
        (9, stop(5)),
        (40, quarantined()),
        (90_000, freed()),
        (90_000, execution_ended(Outcome::ended_for(Cause::TimeLimit))),
        (90_000, ended(Cause::ProviderError)),
    ]);
    let by_a_user = counted(&[(0, Fact::EndDecided { cause: Cause::StoppedByUser }), (40, quarantined())]);

    assert_eq!((cleaned_up(&sandbox), cleaned_up(&execution)), ((0, 1), (0, 1)));
    assert_eq!((cleaned_up(&by_a_user), by_a_user.total(QUARANTINES)), ((0, 0), 1));
}

#[test]
fn unclaimed_instance_counts_neither_as_failed_start_nor_as_cleanup() {
    let pooled = |cause| counted(&[(0, Fact::Pooled), (9, Fact::EndDecided { cause }), (9, ended(cause))]);

    assert!(!is_failed_start(Cause::StartFailed, [&Fact::Pooled]));
    assert!(is_failed_start(Cause::StartFailed, [&Fact::Pooled, &Fact::Created]));
    assert_eq!(pooled(Cause::StartFailed).total(STARTS_FAILED), 0);
    assert_eq!(cleaned_up(&pooled(Cause::Idle)), (0, 0));
}
