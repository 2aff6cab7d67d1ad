//! An execution that was asked for starts or ends with a reason; nothing is left queued, lost or doubled.

use pinfold_engine::{ApplyError, Waited};
use pinfold_lifecycle::{
    Cause, ExecutionKind, ExecutionLimits, ExecutionState, Fact, Outcome, OutcomeKind, Policy, Refusal,
};
use pinfold_provider::fake::{Call, Fault};
use pinfold_store::Store;

use crate::seams::{fault, hangs, slow};
use crate::stage::{SECOND, Stage, words};

fn one_place() -> Policy {
    Policy { side_by_side: 1, ..Policy::default() }
}

#[tokio::test(start_paused = true)]
async fn an_execution_that_is_asked_for_before_the_sandbox_is_ready_runs_when_it_is() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    stage.weather.next(Call::Start, slow(5 * SECOND));
    let id = stage.create(&engine, Policy::default()).await;

    let execution = stage.run(&engine, id, "exit 3").await;
    let at_first = stage.sandbox(id).await.executions[0].state.clone();
    let outcome = stage.outcome(&engine, id, execution).await;

    assert!(matches!(at_first, ExecutionState::Queued { .. }));
    assert_eq!(outcome, Outcome::exited(3));
    let started = |fact: &Fact| *fact == Fact::ExecutionStarted { execution };
    assert_eq!(stage.times(id, started).await, [5 * SECOND]);
}

#[tokio::test(start_paused = true)]
async fn an_execution_whose_start_answer_is_lost_is_found_running_by_a_look() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let accepting = Policy { accept_ms: Some(10 * SECOND), ..Policy::default() };
    let id = stage.ready(&engine, accepting).await;
    stage.weather.next(Call::Exec, fault(Fault::AnswerLost));

    let execution = stage.run(&engine, id, "sleep 20").await;
    let outcome = stage.outcome(&engine, id, execution).await;

    assert_eq!(outcome, Outcome::exited(0));
    let started = |fact: &Fact| *fact == Fact::ExecutionStarted { execution };
    assert_eq!(stage.times(id, started).await, [10 * SECOND]);
    assert_eq!(stage.weather.calls(Call::Exec), 1);
}

#[tokio::test(start_paused = true)]
async fn an_execution_whose_start_answer_is_lost_ends_at_its_start_deadline_with_its_process() {
    for start in [fault(Fault::AnswerLost), hangs()] {
        let stage = Stage::new();
        let engine = stage.begin().await;
        let id = stage.ready(&engine, Policy::default()).await;
        stage.weather.next(Call::Exec, start);

        let execution = stage.run(&engine, id, "hang").await;
        let outcome = stage.outcome(&engine, id, execution).await;

        assert_eq!((outcome.kind, outcome.cause), (OutcomeKind::Failed, Cause::StartDeadline));
        assert_eq!(stage.now(), 30 * SECOND);
        assert_eq!(stage.running(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_that_is_not_clear_is_asked_again_and_runs_once() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    stage.weather.next(Call::Exec, fault(Fault::HalfDone));
    stage.weather.next(Call::Exec, fault(Fault::LookFails));

    let execution = stage.run(&engine, id, "sleep 5").await;
    stage.pass_ms(2 * SECOND).await;
    let running = stage.running();
    let outcome = stage.outcome(&engine, id, execution).await;

    assert_eq!(running, 1);
    assert_eq!(outcome, Outcome::exited(0));
    assert_eq!(stage.weather.calls(Call::Exec), 3);
}

#[tokio::test(start_paused = true)]
async fn an_execution_that_the_provider_refuses_ends_failed_with_the_reason() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;

    let execution = stage.run(&engine, id, "fly").await;
    let outcome = stage.outcome(&engine, id, execution).await;

    assert_eq!((outcome.kind, outcome.cause), (OutcomeKind::Failed, Cause::StartFailed));
    assert!(outcome.detail.unwrap().contains("fly"));
    assert!(stage.sandbox(id).await.executions.is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_more_than_there_are_places_is_queued_or_refused_as_it_wishes() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, one_place()).await;
    let first = stage.run(&engine, id, "sleep 5").await;

    let limits = ExecutionLimits::default();
    let impatient = engine.execute(id, words("true"), ExecutionKind::Run, limits, false).await;
    let second = stage.run(&engine, id, "exit 2").await;
    let outcome = stage.outcome(&engine, id, second).await;

    assert!(matches!(impatient, Err(ApplyError::Refused(Refusal::Busy { running: 1, places: 1 }))));
    assert_eq!(outcome, Outcome::exited(2));
    assert_eq!(stage.outcome(&engine, id, first).await, Outcome::exited(0));
    assert_eq!(stage.store.executions(id).await.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_execution_that_finds_no_place_by_its_start_deadline_ends() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, one_place()).await;
    stage.run(&engine, id, "hang").await;

    let queued = stage.run(&engine, id, "true").await;
    let outcome = stage.outcome(&engine, id, queued).await;

    assert_eq!((outcome.kind, outcome.cause), (OutcomeKind::Failed, Cause::StartDeadline));
    assert_eq!(stage.now(), 30 * SECOND);
    assert_eq!(stage.running(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_beside_what_takes_all_places() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, one_place()).await;
    stage.run(&engine, id, "hang").await;

    let limits = ExecutionLimits::default();
    let job = engine.execute(id, words("sleep 1"), ExecutionKind::Job, limits, false).await.unwrap();
    let outcome = stage.outcome(&engine, id, job).await;

    assert_eq!(outcome, Outcome::exited(0));
    assert_eq!(stage.now(), SECOND);
    assert_eq!(stage.running(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_an_execution_whose_deadline_passes_says_so() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    let execution = stage.run(&engine, id, "hang").await;

    let until = crate::seams::DAWN.after_ms(3 * SECOND);
    let waited = engine.wait_execution(id, execution, until).await.unwrap();

    assert_eq!(waited, Waited::DeadlinePassed);
    assert_eq!(stage.now(), 3 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn an_outcome_can_be_read_after_the_end_of_the_sandbox() {
    let stage = Stage::new();
    let (engine, other) = (stage.begin().await, stage.begin().await);
    let id = stage.ready(&engine, Policy::default()).await;
    let short = stage.run(&engine, id, "exit 4").await;
    stage.outcome(&engine, id, short).await;
    let long = stage.run(&engine, id, "hang").await;

    stage.stop(&engine, id).await;

    assert_eq!(stage.outcome(&other, id, short).await, Outcome::exited(4));
    let ended = stage.outcome(&other, id, long).await;
    assert_eq!((ended.kind, ended.cause), (OutcomeKind::Cancelled, Cause::StoppedByUser));
}

#[tokio::test(start_paused = true)]
async fn usage_is_answered_by_the_body_itself() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    stage.run(&engine, id, "hang").await;
    stage.run(&engine, id, "hang").await;
    stage.pass_ms(SECOND).await;

    let usage = engine.usage(id).await.unwrap();
    stage.stop(&engine, id).await;

    assert_eq!(usage.processes, Some(2));
    assert!(engine.usage(id).await.is_err());
}
