//! Every requested execution starts or ends with a reason; none is left queued, lost or started twice.

use pinfold_engine::{ApplyError, WaitOutcome};
use pinfold_lifecycle::{
    Cause, ExecutionKind, ExecutionLimits, ExecutionState, Fact, Outcome, OutcomeKind, Policy, Refusal,
};
use pinfold_provider::fake::{Call, Fault};
use pinfold_store::Store;

use crate::fakes::{fault, hangs, slow};
use crate::fixture::{Fixture, SECOND, words};

fn one_slot() -> Policy {
    Policy { max_concurrent: 1, ..Policy::default() }
}

#[tokio::test(start_paused = true)]
async fn an_execution_requested_before_readiness_runs_when_the_sandbox_is_ready() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    fixture.faults.next(Call::Start, slow(5 * SECOND));
    let id = fixture.create(&engine, Policy::default()).await;

    let execution = fixture.run(&engine, id, "exit 3").await;
    let at_first = fixture.sandbox(id).await.executions[0].state.clone();
    let outcome = fixture.outcome(&engine, id, execution).await;

    assert!(matches!(at_first, ExecutionState::Queued { .. }));
    assert_eq!(outcome, Outcome::exited(3));
    let started = |fact: &Fact| *fact == Fact::ExecutionStarted { execution };
    assert_eq!(fixture.times(id, started).await, [5 * SECOND]);
}

#[tokio::test(start_paused = true)]
async fn an_execution_whose_start_answer_is_lost_is_found_running_by_an_observation() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let accepting = Policy { accept_ms: Some(10 * SECOND), ..Policy::default() };
    let id = fixture.ready(&engine, accepting).await;
    fixture.faults.next(Call::Exec, fault(Fault::AnswerLost));

    let execution = fixture.run(&engine, id, "sleep 20").await;
    let outcome = fixture.outcome(&engine, id, execution).await;

    assert_eq!(outcome, Outcome::exited(0));
    let started = |fact: &Fact| *fact == Fact::ExecutionStarted { execution };
    assert_eq!(fixture.times(id, started).await, [10 * SECOND]);
    assert_eq!(fixture.faults.calls(Call::Exec), 1);
}

#[tokio::test(start_paused = true)]
async fn an_execution_whose_start_answer_is_lost_ends_at_its_start_deadline_with_its_process() {
    for start in [fault(Fault::AnswerLost), hangs()] {
        let fixture = Fixture::new();
        let engine = fixture.start_engine().await;
        let id = fixture.ready(&engine, Policy::default()).await;
        fixture.faults.next(Call::Exec, start);

        let execution = fixture.run(&engine, id, "hang").await;
        let outcome = fixture.outcome(&engine, id, execution).await;

        assert_eq!((outcome.kind, outcome.cause), (OutcomeKind::Failed, Cause::StartDeadline));
        assert_eq!(fixture.now(), 30 * SECOND);
        assert_eq!(fixture.running(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn an_exec_with_unknown_outcome_is_repeated_and_runs_once() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    fixture.faults.next(Call::Exec, fault(Fault::HalfDone));
    fixture.faults.next(Call::Exec, fault(Fault::ObserveFails));

    let execution = fixture.run(&engine, id, "sleep 5").await;
    fixture.pass_ms(2 * SECOND).await;
    let running = fixture.running();
    let outcome = fixture.outcome(&engine, id, execution).await;

    assert_eq!(running, 1);
    assert_eq!(outcome, Outcome::exited(0));
    assert_eq!(fixture.faults.calls(Call::Exec), 3);
}

#[tokio::test(start_paused = true)]
async fn an_execution_that_the_provider_refuses_ends_failed_with_the_reason() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;

    fixture.faults.next(Call::Exec, fault(Fault::Fails));
    let execution = fixture.run(&engine, id, "true").await;
    let outcome = fixture.outcome(&engine, id, execution).await;

    assert_eq!((outcome.kind, outcome.cause), (OutcomeKind::Failed, Cause::StartFailed));
    assert!(outcome.detail.unwrap().contains("injected fault"));
    assert!(fixture.sandbox(id).await.executions.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_execution_beyond_the_limit_is_queued_or_refused_as_requested() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, one_slot()).await;
    let first = fixture.run(&engine, id, "sleep 5").await;

    let limits = ExecutionLimits::default();
    let impatient = engine.execute(id, words("true"), ExecutionKind::Run, limits, false).await;
    let second = fixture.run(&engine, id, "exit 2").await;
    let outcome = fixture.outcome(&engine, id, second).await;

    assert!(matches!(impatient, Err(ApplyError::Refused(Refusal::Busy { running: 1, capacity: 1 }))));
    assert_eq!(outcome, Outcome::exited(2));
    assert_eq!(fixture.outcome(&engine, id, first).await, Outcome::exited(0));
    assert_eq!(fixture.store.executions(id).await.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_execution_without_a_free_slot_by_its_start_deadline_ends() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, one_slot()).await;
    fixture.run(&engine, id, "hang").await;

    let queued = fixture.run(&engine, id, "true").await;
    let outcome = fixture.outcome(&engine, id, queued).await;

    assert_eq!((outcome.kind, outcome.cause), (OutcomeKind::Failed, Cause::StartDeadline));
    assert_eq!(fixture.now(), 30 * SECOND);
    assert_eq!(fixture.running(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_although_all_execution_slots_are_taken() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, one_slot()).await;
    fixture.run(&engine, id, "hang").await;

    let limits = ExecutionLimits::default();
    let job = engine.execute(id, words("sleep 1"), ExecutionKind::Job, limits, false).await.unwrap();
    let outcome = fixture.outcome(&engine, id, job).await;

    assert_eq!(outcome, Outcome::exited(0));
    assert_eq!(fixture.now(), SECOND);
    assert_eq!(fixture.running(), 1);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_an_execution_past_the_deadline_returns_deadline_passed() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    let execution = fixture.run(&engine, id, "hang").await;

    let until = crate::fakes::START.after_ms(3 * SECOND);
    let waited = engine.wait_execution(id, execution, until).await.unwrap();

    assert_eq!(waited, WaitOutcome::DeadlinePassed);
    assert_eq!(fixture.now(), 3 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn an_outcome_can_be_read_after_the_end_of_the_sandbox() {
    let fixture = Fixture::new();
    let (engine, other) = (fixture.start_engine().await, fixture.start_engine().await);
    let id = fixture.ready(&engine, Policy::default()).await;
    let short = fixture.run(&engine, id, "exit 4").await;
    fixture.outcome(&engine, id, short).await;
    let long = fixture.run(&engine, id, "hang").await;

    fixture.stop(&engine, id).await;

    assert_eq!(fixture.outcome(&other, id, short).await, Outcome::exited(4));
    let ended = fixture.outcome(&other, id, long).await;
    assert_eq!((ended.kind, ended.cause), (OutcomeKind::Cancelled, Cause::StoppedByUser));
}

#[tokio::test(start_paused = true)]
async fn usage_is_measured_from_the_instance() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    fixture.run(&engine, id, "hang").await;
    fixture.run(&engine, id, "hang").await;
    fixture.pass_ms(SECOND).await;

    let usage = engine.usage(id).await.unwrap();
    fixture.stop(&engine, id).await;

    assert_eq!(usage.processes, Some(2));
    assert!(engine.usage(id).await.is_err());
}
