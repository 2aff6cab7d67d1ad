//! Executions: queue, start, limits and end.

use super::*;

const FIRST: ExecutionId = ExecutionId(1);
const SECOND: ExecutionId = ExecutionId(2);

fn no_limits() -> ExecutionLimits {
    ExecutionLimits::default()
}

fn silent_for(inactivity_ms: u64) -> ExecutionLimits {
    ExecutionLimits { inactivity_ms: Some(inactivity_ms), ..no_limits() }
}

#[test]
fn execution_beyond_the_concurrency_limit_is_queued() {
    let mut fixture = Fixture::running(one_at_a_time(), FIRST, no_limits());

    fixture.execute(SECOND, no_limits());
    let while_first_runs = fixture.effect_kinds();
    fixture.exited(FIRST, 0);

    assert_eq!(while_first_runs, [EffectKind::Watch { execution: FIRST }]);
    assert_eq!(fixture.effect_kinds(), [EffectKind::Exec { execution: SECOND }]);
    assert_eq!(fixture.outcome(FIRST), Some((OutcomeKind::Exited, Cause::Completed)));
}

#[test]
fn a_queued_execution_ends_with_a_reason_at_its_start_deadline() {
    let mut fixture = Fixture::running(one_at_a_time(), FIRST, no_limits());
    fixture.execute(SECOND, no_limits());

    fixture.wait_ms(30_000);

    assert_eq!(fixture.outcome(SECOND), Some((OutcomeKind::Failed, Cause::StartDeadline)));
    assert_eq!(fixture.outcome(FIRST), None);
}

#[test]
fn execution_requested_before_ready_starts_when_the_sandbox_is_live() {
    let mut fixture = Fixture::created(Policy::default());
    fixture.execute(FIRST, no_limits());

    fixture.launched();
    fixture.probed(ProbeResult::Passed);

    assert_eq!(fixture.effect_kinds(), [EffectKind::Exec { execution: FIRST }]);
}

#[test]
fn a_refused_start_ends_failed_with_the_reason() {
    let mut fixture = Fixture::live(Policy::default());
    fixture.execute(FIRST, no_limits());
    let fence = fixture.pending(|_| true).fence;

    fixture.apply(Event::ExecutionRefused {
        fence,
        execution: FIRST,
        cause: Cause::StartFailed,
        why: "no such program".into(),
    });

    assert_eq!(fixture.outcome(FIRST), Some((OutcomeKind::Failed, Cause::StartFailed)));
    assert_eq!(fixture.status(), State::Ready);
}

#[test]
fn refused_start_triggers_a_probe_that_decides() {
    for (probed, status) in [
        (ProbeResult::Passed, State::Ready),
        (ProbeResult::Failed(ProbeFailure::Files { why: String::new() }), State::Unhealthy),
    ] {
        let mut fixture = Fixture::live(Policy::default());
        fixture.execute(FIRST, no_limits());
        let fence = fixture.pending(|_| true).fence;
        let (cause, why) = (Cause::StartFailed, "it could not be started".into());

        fixture.apply(Event::ExecutionRefused { fence, execution: FIRST, cause, why });
        let work = fixture.effect_kinds();
        fixture.probed(probed);

        assert_eq!((work, fixture.status()), (vec![EffectKind::Probe], status));
    }
}

#[test]
fn start_without_result_is_killed_at_its_deadline() {
    let mut fixture = Fixture::live(Policy::default());
    fixture.execute(FIRST, no_limits());

    fixture.wait_ms(30_000);

    assert!(fixture.effect_kinds().contains(&EffectKind::Kill { execution: FIRST }));
    assert_eq!(fixture.outcome(FIRST), None);
}

#[test]
fn cancel_while_starting_waits_for_proof_that_no_process_runs() {
    let mut fixture = Fixture::live(Policy::default());
    fixture.execute(FIRST, no_limits());

    fixture.request(Request::Cancel { id: FIRST, cause: Cause::Cancelled }).unwrap();
    let before_the_proof = fixture.outcome(FIRST);
    let fence = fixture.pending(|kind| kind == EffectKind::Kill { execution: FIRST }).fence;
    fixture.apply(Event::ExecutionGone { fence, execution: FIRST });

    assert_eq!(before_the_proof, None);
    assert_eq!(fixture.outcome(FIRST), Some((OutcomeKind::Cancelled, Cause::Cancelled)));
}

#[test]
fn an_exit_that_comes_after_the_cancel_does_not_rewrite_the_outcome() {
    let mut fixture = Fixture::running(Policy::default(), FIRST, no_limits());
    let watch = fixture.pending(|_| true).fence;
    fixture.request(Request::Cancel { id: FIRST, cause: Cause::Cancelled }).unwrap();

    fixture.apply(Event::ExecutionEnded { fence: watch, execution: FIRST, outcome: Outcome::exited(0) });

    assert_eq!(fixture.outcome(FIRST), Some((OutcomeKind::Cancelled, Cause::Cancelled)));
}

#[test]
fn an_execution_past_its_time_limit_is_ended() {
    let limits = ExecutionLimits { timeout_ms: Some(9_000), ..no_limits() };
    let mut fixture = Fixture::running(Policy::default(), FIRST, limits);

    fixture.wait_ms(9_000);
    let fence = fixture.pending(|kind| kind == EffectKind::Kill { execution: FIRST }).fence;
    fixture.apply(Event::ExecutionGone { fence, execution: FIRST });

    assert_eq!(fixture.outcome(FIRST), Some((OutcomeKind::TimedOut, Cause::TimeLimit)));
    assert_eq!(fixture.sandbox.timeouts, 1);
}

#[test]
fn timeout_is_counted_by_cause_not_by_text() {
    let policy = Policy { one_shot: true, ..Policy::default() };
    let timed_out = Outcome::ended_for(Cause::TimeLimit);
    let failed = Outcome::exited(1);
    for (reported, timeouts) in [(timed_out, 1), (failed, 0)] {
        for words in ["Task execution timed out", "timed out after 9 s", "exited with 1", ""] {
            let mut fixture = Fixture::running(policy.clone(), FIRST, no_limits());
            let outcome = Outcome { detail: Some(words.into()), ..reported.clone() };
            let fence = fixture.pending(|kind| kind == EffectKind::Watch { execution: FIRST }).fence;

            fixture.apply(Event::ExecutionEnded { fence, execution: FIRST, outcome });

            assert_eq!(fixture.outcome(FIRST), Some((reported.kind, reported.cause)), "{words}");
            assert_eq!(
                (fixture.cause(), fixture.sandbox.timeouts),
                (Some(reported.cause), timeouts),
                "{words}"
            );
            assert!(
                matches!(fixture.effect_kinds()[..], [EffectKind::Stop { .. }]),
                "{words}: it is cleaned up"
            );
        }
    }
}

#[test]
fn outcome_of_a_limit_does_not_depend_on_who_enforced_it_first() {
    let limits = ExecutionLimits { timeout_ms: Some(9_000), ..no_limits() };
    let killed = Outcome { exit_code: Some(137), ..Outcome::ended_for(Cause::TimeLimit) };
    let end_of = |fixture: &Fixture| fixture.finished[0].outcome().cloned();

    let mut by_body = Fixture::running(Policy::default(), FIRST, limits);
    let fence = by_body.pending(|kind| kind == EffectKind::Watch { execution: FIRST }).fence;
    by_body.apply(Event::ExecutionEnded { fence, execution: FIRST, outcome: killed.clone() });
    let mut by_engine = Fixture::running(Policy::default(), FIRST, limits);
    by_engine.wait_ms(9_000);
    by_engine.apply(Event::ExecutionEnded { fence, execution: FIRST, outcome: killed });

    assert_eq!(end_of(&by_body), Some(Outcome::ended_for(Cause::TimeLimit)));
    assert_eq!(end_of(&by_engine), end_of(&by_body));
}

#[test]
fn inactivity_is_decided_by_an_observation() {
    let mut fixture = Fixture::running(Policy::default(), FIRST, silent_for(8_000));
    let began = fixture.now;

    fixture.wait_ms(8_000);
    let at_the_deadline = fixture.effect_kinds();
    let silent = ProcessObservation::Running { last_activity_at: began };
    fixture.observed(present(vec![instance(1, vec![(FIRST, silent)])]));

    assert_eq!(at_the_deadline, [EffectKind::Observe, EffectKind::Watch { execution: FIRST }]);
    assert_eq!(fixture.effect_kinds(), [EffectKind::Kill { execution: FIRST }]);
}

#[test]
fn execution_observed_active_continues() {
    let mut fixture = Fixture::running(Policy::default(), FIRST, silent_for(8_000));
    let next_check = Policy::default().first_check(fixture.sandbox.id, fixture.now);

    fixture.wait_ms(8_000);
    let active = ProcessObservation::Running { last_activity_at: fixture.now };
    fixture.observed(present(vec![instance(1, vec![(FIRST, active)])]));

    assert_eq!(fixture.effect_kinds(), [EffectKind::Watch { execution: FIRST }]);
    assert_eq!(fixture.sandbox.next_deadline(), Some(next_check));
}

#[test]
fn a_job_runs_beside_the_executions() {
    let mut fixture = Fixture::running(one_at_a_time(), FIRST, no_limits());

    fixture
        .request(Request::Execute {
            id: SECOND,
            kind: ExecutionKind::Job,
            limits: no_limits(),
            transfers: FileTransfers::default(),
            may_queue: false,
        })
        .unwrap();

    assert!(fixture.effect_kinds().contains(&EffectKind::Exec { execution: SECOND }));
}

#[test]
fn request_that_may_not_queue_is_refused_while_all_slots_are_taken() {
    let mut fixture = Fixture::running(one_at_a_time(), FIRST, no_limits());

    let refusal = fixture.request(Request::Execute {
        id: SECOND,
        kind: ExecutionKind::Run,
        limits: no_limits(),
        transfers: FileTransfers::default(),
        may_queue: false,
    });

    assert_eq!(refusal, Err(Refusal::Busy { running: 1, capacity: 1 }));
    assert_eq!(fixture.sandbox.executions.len(), 1);
}

#[test]
fn repeated_execute_request_is_one_execution() {
    let mut fixture = Fixture::running(Policy::default(), FIRST, no_limits());
    let before = fixture.sandbox.clone();

    fixture.execute(FIRST, no_limits());

    assert_eq!(fixture.sandbox, before);
}

#[test]
fn ending_sandbox_refuses_executions() {
    let mut fixture = Fixture::stopping(Policy::default());

    let refusal = fixture.request(Request::Execute {
        id: FIRST,
        kind: ExecutionKind::Run,
        limits: no_limits(),
        transfers: FileTransfers::default(),
        may_queue: true,
    });

    let cause = Cause::StoppedByUser;
    assert_eq!(refusal, Err(Refusal::Ending { cause }));
}

#[test]
fn process_that_cannot_be_killed_ends_its_sandbox() {
    let mut fixture = Fixture::running(Policy::default(), FIRST, no_limits());
    fixture.request(Request::Cancel { id: FIRST, cause: Cause::Cancelled }).unwrap();

    fixture.wait_ms(10_000);
    fixture.stopped(gone());

    assert_eq!(fixture.cause(), Some(Cause::ProviderError));
    assert_eq!(fixture.outcome(FIRST), Some((OutcomeKind::Cancelled, Cause::Cancelled)));
}

#[test]
fn stop_ends_queued_executions_at_once_and_running_ones_with_the_proof() {
    let mut fixture = Fixture::running(one_at_a_time(), FIRST, no_limits());
    fixture.execute(SECOND, no_limits());

    fixture.stop();
    let at_once = (fixture.outcome(FIRST), fixture.outcome(SECOND));
    fixture.stopped(gone());

    let stopped = Some((OutcomeKind::Cancelled, Cause::StoppedByUser));
    assert_eq!(at_once, (None, stopped));
    assert_eq!(fixture.outcome(FIRST), stopped);
}

#[test]
fn a_one_shot_sandbox_ends_with_its_last_execution_and_its_cause() {
    let policy = Policy { one_shot: true, ..Policy::default() };
    let mut fixture = Fixture::running(policy, FIRST, no_limits());

    fixture.exited(FIRST, 3);
    fixture.stopped(gone());

    assert_eq!(fixture.cause(), Some(Cause::ExitNonzero));
    assert_eq!(fixture.status(), State::Failed);
}

#[test]
fn observation_begun_before_an_execution_ran_does_not_mark_it_lost() {
    let mut fixture = Fixture::live(Policy::default());
    fixture.apply(Event::Doubted { why: "a mount is missing".into() });
    fixture.execute(FIRST, no_limits());
    fixture.started(FIRST);

    fixture.observed(present(vec![instance(1, vec![])]));

    assert_eq!(fixture.outcome(FIRST), None);
    assert_eq!(fixture.effect_kinds(), [EffectKind::Watch { execution: FIRST }]);
}

#[test]
fn execution_observed_ended_has_started_although_the_start_result_was_lost() {
    let mut fixture = Fixture::live(Policy::default());
    fixture.apply(Event::Doubted { why: "a mount is missing".into() });
    fixture.execute(FIRST, no_limits());

    fixture
        .observed(present(vec![instance(1, vec![(FIRST, ProcessObservation::Ended(Outcome::exited(0)))])]));

    let starts = fixture.facts.iter().filter(|fact| matches!(fact, Fact::ExecutionStarted { .. }));
    assert_eq!(starts.count(), 1);
    assert_eq!(fixture.outcome(FIRST), Some((OutcomeKind::Exited, Cause::Completed)));
}
