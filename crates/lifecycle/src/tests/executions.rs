//! Executions: the queue, their start, their limits and their ends.

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
fn one_execution_too_many_waits_for_a_place() {
    let mut scene = Scene::running(one_at_a_time(), FIRST, no_limits());

    scene.execute(SECOND, no_limits());
    let while_first_runs = scene.work();
    scene.exited(FIRST, 0);

    assert_eq!(while_first_runs, [EffectKind::Watch { execution: FIRST }]);
    assert_eq!(scene.work(), [EffectKind::Exec { execution: SECOND }]);
    assert_eq!(scene.outcome(FIRST), Some((OutcomeKind::Exited, Cause::Completed)));
}

#[test]
fn a_queued_execution_ends_with_a_reason_at_its_start_deadline() {
    let mut scene = Scene::running(one_at_a_time(), FIRST, no_limits());
    scene.execute(SECOND, no_limits());

    scene.wait_ms(30_000);

    assert_eq!(scene.outcome(SECOND), Some((OutcomeKind::Failed, Cause::StartDeadline)));
    assert_eq!(scene.outcome(FIRST), None);
}

#[test]
fn an_execution_asked_for_before_the_sandbox_is_live_starts_when_it_is() {
    let mut scene = Scene::created(Policy::default());
    scene.execute(FIRST, no_limits());

    scene.launched();
    scene.probed(Probed::Passed);

    assert_eq!(scene.work(), [EffectKind::Exec { execution: FIRST }]);
}

#[test]
fn a_refused_start_ends_failed_with_the_reason() {
    let mut scene = Scene::live(Policy::default());
    scene.execute(FIRST, no_limits());
    let ticket = scene.duty(|_| true).ticket;

    scene.tell(Event::ExecutionRefused {
        ticket,
        execution: FIRST,
        cause: Cause::StartFailed,
        why: "no such program".into(),
    });

    assert_eq!(scene.outcome(FIRST), Some((OutcomeKind::Failed, Cause::StartFailed)));
    assert_eq!(scene.status(), State::Ready);
}

#[test]
fn a_refused_start_has_the_body_tried_and_only_that_decides() {
    for (probed, status) in [
        (Probed::Passed, State::Ready),
        (Probed::Failed(ProbeFailure::Files { why: String::new() }), State::Unhealthy),
    ] {
        let mut scene = Scene::live(Policy::default());
        scene.execute(FIRST, no_limits());
        let ticket = scene.duty(|_| true).ticket;
        let (cause, why) = (Cause::StartFailed, "it could not be started".into());

        scene.tell(Event::ExecutionRefused { ticket, execution: FIRST, cause, why });
        let work = scene.work();
        scene.probed(probed);

        assert_eq!((work, scene.status()), (vec![EffectKind::Probe], status));
    }
}

#[test]
fn a_start_without_an_answer_is_killed_at_its_deadline() {
    let mut scene = Scene::live(Policy::default());
    scene.execute(FIRST, no_limits());

    scene.wait_ms(30_000);

    assert!(scene.work().contains(&EffectKind::Kill { execution: FIRST }));
    assert_eq!(scene.outcome(FIRST), None);
}

#[test]
fn a_cancel_while_starting_waits_for_the_proof_that_nothing_runs() {
    let mut scene = Scene::live(Policy::default());
    scene.execute(FIRST, no_limits());

    scene.ask(Request::Cancel { id: FIRST, cause: Cause::Cancelled }).unwrap();
    let before_the_proof = scene.outcome(FIRST);
    let ticket = scene.duty(|work| work == EffectKind::Kill { execution: FIRST }).ticket;
    scene.tell(Event::ExecutionGone { ticket, execution: FIRST });

    assert_eq!(before_the_proof, None);
    assert_eq!(scene.outcome(FIRST), Some((OutcomeKind::Cancelled, Cause::Cancelled)));
}

#[test]
fn an_exit_that_comes_after_the_cancel_does_not_rewrite_the_outcome() {
    let mut scene = Scene::running(Policy::default(), FIRST, no_limits());
    let watch = scene.duty(|_| true).ticket;
    scene.ask(Request::Cancel { id: FIRST, cause: Cause::Cancelled }).unwrap();

    scene.tell(Event::ExecutionEnded { ticket: watch, execution: FIRST, outcome: Outcome::exited(0) });

    assert_eq!(scene.outcome(FIRST), Some((OutcomeKind::Cancelled, Cause::Cancelled)));
}

#[test]
fn an_execution_past_its_time_limit_is_ended() {
    let limits = ExecutionLimits { timeout_ms: Some(9_000), ..no_limits() };
    let mut scene = Scene::running(Policy::default(), FIRST, limits);

    scene.wait_ms(9_000);
    let ticket = scene.duty(|work| work == EffectKind::Kill { execution: FIRST }).ticket;
    scene.tell(Event::ExecutionGone { ticket, execution: FIRST });

    assert_eq!(scene.outcome(FIRST), Some((OutcomeKind::TimedOut, Cause::TimeLimit)));
    assert_eq!(scene.sandbox.timeouts, 1);
}

#[test]
fn a_timeout_is_known_by_its_cause_whatever_its_words_say() {
    let policy = Policy { one_shot: true, ..Policy::default() };
    let timed_out = Outcome::ended_for(Cause::TimeLimit);
    let failed = Outcome::exited(1);
    for (told, timeouts) in [(timed_out, 1), (failed, 0)] {
        for words in ["Task execution timed out", "timed out after 9 s", "exited with 1", ""] {
            let mut scene = Scene::running(policy.clone(), FIRST, no_limits());
            let outcome = Outcome { detail: Some(words.into()), ..told.clone() };
            let ticket = scene.duty(|work| work == EffectKind::Watch { execution: FIRST }).ticket;

            scene.tell(Event::ExecutionEnded { ticket, execution: FIRST, outcome });

            assert_eq!(scene.outcome(FIRST), Some((told.kind, told.cause)), "{words}");
            assert_eq!((scene.cause(), scene.sandbox.timeouts), (Some(told.cause), timeouts), "{words}");
            assert!(matches!(scene.work()[..], [EffectKind::Stop { .. }]), "{words}: it is cleaned up");
        }
    }
}

#[test]
fn an_execution_that_a_limit_ended_shows_the_same_whoever_was_first() {
    let limits = ExecutionLimits { timeout_ms: Some(9_000), ..no_limits() };
    let killed = Outcome { exit_code: Some(137), ..Outcome::ended_for(Cause::TimeLimit) };
    let end_of = |scene: &Scene| scene.finished[0].outcome().cloned();

    let mut by_body = Scene::running(Policy::default(), FIRST, limits);
    let ticket = by_body.duty(|work| work == EffectKind::Watch { execution: FIRST }).ticket;
    by_body.tell(Event::ExecutionEnded { ticket, execution: FIRST, outcome: killed.clone() });
    let mut by_engine = Scene::running(Policy::default(), FIRST, limits);
    by_engine.wait_ms(9_000);
    by_engine.tell(Event::ExecutionEnded { ticket, execution: FIRST, outcome: killed });

    assert_eq!(end_of(&by_body), Some(Outcome::ended_for(Cause::TimeLimit)));
    assert_eq!(end_of(&by_engine), end_of(&by_body));
}

#[test]
fn silence_is_judged_by_a_look() {
    let mut scene = Scene::running(Policy::default(), FIRST, silent_for(8_000));
    let began = scene.now;

    scene.wait_ms(8_000);
    let at_the_deadline = scene.work();
    let silent = Seen::Running { last_activity_at: began };
    scene.looked(present(vec![body(1, vec![(FIRST, silent)])]));

    assert_eq!(at_the_deadline, [EffectKind::Look, EffectKind::Watch { execution: FIRST }]);
    assert_eq!(scene.work(), [EffectKind::Kill { execution: FIRST }]);
}

#[test]
fn an_execution_that_was_seen_to_be_active_goes_on() {
    let mut scene = Scene::running(Policy::default(), FIRST, silent_for(8_000));
    let next_check = Policy::default().first_check(scene.sandbox.id, scene.now);

    scene.wait_ms(8_000);
    let active = Seen::Running { last_activity_at: scene.now };
    scene.looked(present(vec![body(1, vec![(FIRST, active)])]));

    assert_eq!(scene.work(), [EffectKind::Watch { execution: FIRST }]);
    assert_eq!(scene.sandbox.next_deadline(), Some(next_check));
}

#[test]
fn a_job_runs_beside_the_executions() {
    let mut scene = Scene::running(one_at_a_time(), FIRST, no_limits());

    scene
        .ask(Request::Execute { id: SECOND, kind: ExecutionKind::Job, limits: no_limits(), may_queue: false })
        .unwrap();

    assert!(scene.work().contains(&EffectKind::Exec { execution: SECOND }));
}

#[test]
fn one_who_will_not_queue_is_refused_while_all_places_are_taken() {
    let mut scene = Scene::running(one_at_a_time(), FIRST, no_limits());

    let refusal = scene.ask(Request::Execute {
        id: SECOND,
        kind: ExecutionKind::Run,
        limits: no_limits(),
        may_queue: false,
    });

    assert_eq!(refusal, Err(Refusal::Busy { running: 1, places: 1 }));
    assert_eq!(scene.sandbox.executions.len(), 1);
}

#[test]
fn asking_twice_for_the_same_execution_is_one_execution() {
    let mut scene = Scene::running(Policy::default(), FIRST, no_limits());
    let before = scene.sandbox.clone();

    scene.execute(FIRST, no_limits());

    assert_eq!(scene.sandbox, before);
}

#[test]
fn an_ending_sandbox_takes_no_work() {
    let mut scene = Scene::stopping(Policy::default());

    let refusal = scene.ask(Request::Execute {
        id: FIRST,
        kind: ExecutionKind::Run,
        limits: no_limits(),
        may_queue: true,
    });

    let cause = Cause::StoppedByUser;
    assert_eq!(refusal, Err(Refusal::Ending { cause }));
}

#[test]
fn a_process_that_cannot_be_ended_is_ended_with_its_sandbox() {
    let mut scene = Scene::running(Policy::default(), FIRST, no_limits());
    scene.ask(Request::Cancel { id: FIRST, cause: Cause::Cancelled }).unwrap();

    scene.wait_ms(10_000);
    scene.stopped(gone());

    assert_eq!(scene.cause(), Some(Cause::ProviderError));
    assert_eq!(scene.outcome(FIRST), Some((OutcomeKind::Cancelled, Cause::Cancelled)));
}

#[test]
fn a_stop_ends_what_waits_at_once_and_what_runs_with_the_proof() {
    let mut scene = Scene::running(one_at_a_time(), FIRST, no_limits());
    scene.execute(SECOND, no_limits());

    scene.stop();
    let at_once = (scene.outcome(FIRST), scene.outcome(SECOND));
    scene.stopped(gone());

    let stopped = Some((OutcomeKind::Cancelled, Cause::StoppedByUser));
    assert_eq!(at_once, (None, stopped));
    assert_eq!(scene.outcome(FIRST), stopped);
}

#[test]
fn a_one_shot_sandbox_ends_with_its_last_execution_and_its_cause() {
    let policy = Policy { one_shot: true, ..Policy::default() };
    let mut scene = Scene::running(policy, FIRST, no_limits());

    scene.exited(FIRST, 3);
    scene.stopped(gone());

    assert_eq!(scene.cause(), Some(Cause::ExitNonzero));
    assert_eq!(scene.status(), State::Failed);
}

#[test]
fn a_look_that_began_before_an_execution_ran_does_not_call_it_lost() {
    let mut scene = Scene::live(Policy::default());
    scene.tell(Event::Doubted { why: "a mount is missing".into() });
    scene.execute(FIRST, no_limits());
    scene.started(FIRST);

    scene.looked(present(vec![body(1, vec![])]));

    assert_eq!(scene.outcome(FIRST), None);
    assert_eq!(scene.work(), [EffectKind::Watch { execution: FIRST }]);
}

#[test]
fn an_execution_whose_start_was_never_answered_has_started_all_the_same_when_it_is_seen_ended() {
    let mut scene = Scene::live(Policy::default());
    scene.tell(Event::Doubted { why: "a mount is missing".into() });
    scene.execute(FIRST, no_limits());

    scene.looked(present(vec![body(1, vec![(FIRST, Seen::Ended(Outcome::exited(0)))])]));

    let starts = scene.facts.iter().filter(|fact| matches!(fact, Fact::ExecutionStarted { .. }));
    assert_eq!(starts.count(), 1);
    assert_eq!(scene.outcome(FIRST), Some((OutcomeKind::Exited, Cause::Completed)));
}
