//! Limits that end executions and sandboxes (time, inactivity, idleness, last command), and cancellation by the
//! user.

use pinfold_engine::{ApplyError, StopProgress};
use pinfold_lifecycle::{Cause, ExecutionLimits, Fact, Outcome, OutcomeKind, Policy, Refusal, State};
use pinfold_provider::fake::{Call, Fault};

use crate::fakes::{fault, hangs, slow};
use crate::fixture::{Fixture, MINUTE, SECOND};

fn within(seconds: u64) -> ExecutionLimits {
    ExecutionLimits { timeout_ms: Some(seconds * SECOND), inactivity_ms: None }
}

fn quiet_for(seconds: u64) -> ExecutionLimits {
    ExecutionLimits { timeout_ms: None, inactivity_ms: Some(seconds * SECOND) }
}

#[tokio::test(start_paused = true)]
async fn an_execution_ends_at_its_time_limit_and_its_sandbox_goes_on() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;

    let execution = fixture.run_within(&engine, id, "work 60000 0", within(10)).await;
    let outcome = fixture.outcome(&engine, id, execution).await;

    assert_eq!((outcome.kind, outcome.cause), (OutcomeKind::TimedOut, Cause::TimeLimit));
    assert_eq!(fixture.now(), 10 * SECOND);
    assert_eq!(fixture.running(), 0);
    assert_eq!(fixture.state(id).await, State::Ready);
}

#[tokio::test(start_paused = true)]
async fn a_silent_execution_ends_for_inactivity_and_a_chatty_one_does_not() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;

    let chatty = fixture.run_within(&engine, id, "work 120000 0", quiet_for(5)).await;
    let silent = fixture.run_within(&engine, id, "sleep 120", quiet_for(5)).await;
    let of_the_silent = fixture.outcome(&engine, id, silent).await;
    let silent_until = fixture.now();
    let of_the_chatty = fixture.outcome(&engine, id, chatty).await;

    assert_eq!((of_the_silent.kind, of_the_silent.cause), (OutcomeKind::TimedOut, Cause::Inactivity));
    assert_eq!(silent_until, 5 * SECOND);
    assert_eq!(of_the_chatty, Outcome::exited(0));
    assert_eq!(fixture.now(), 2 * MINUTE);
}

#[tokio::test(start_paused = true)]
async fn a_failed_observation_does_not_make_an_execution_silent() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    for _ in 0..3 {
        fixture.faults.next(Call::Observe, fault(Fault::ObserveFails));
    }

    let execution = fixture.run_within(&engine, id, "work 20000 0", quiet_for(5)).await;
    let outcome = fixture.outcome(&engine, id, execution).await;

    assert_eq!(outcome, Outcome::exited(0));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_execution_ends_with_its_process_and_others_continue() {
    let fixture = Fixture::new();
    let (engine, other) = (fixture.start_engine().await, fixture.start_engine().await);
    let id = fixture.ready(&engine, Policy { max_concurrent: 2, ..Policy::default() }).await;
    let (kept, running) = (fixture.run(&engine, id, "sleep 9").await, fixture.run(&engine, id, "hang").await);
    let queued = fixture.run(&engine, id, "hang").await;
    fixture.pass_ms(SECOND).await;

    other.cancel(id, queued).await.unwrap();
    other.cancel(id, running).await.unwrap();
    let outcomes = [fixture.outcome(&engine, id, queued).await, fixture.outcome(&engine, id, running).await];

    assert!(outcomes.iter().all(|ended| ended.kind == OutcomeKind::Cancelled), "{outcomes:?}");
    assert_eq!(fixture.running(), 1);
    assert_eq!(fixture.outcome(&engine, id, kept).await, Outcome::exited(0));
    assert_eq!(fixture.now(), 9 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn cancel_of_an_unknown_execution_is_an_error() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;

    let cancelled = engine.cancel(id, pinfold_lifecycle::ExecutionId(7)).await;

    assert!(matches!(cancelled, Err(ApplyError::Refused(Refusal::NoSuchExecution))));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_before_the_start_prevents_a_later_process() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    fixture.faults.next(Call::Exec, slow(5 * SECOND));
    let execution = fixture.run(&engine, id, "hang").await;
    fixture.pass_ms(SECOND).await;

    engine.cancel(id, execution).await.unwrap();
    let outcome = fixture.outcome(&engine, id, execution).await;
    fixture.pass_ms(10 * SECOND).await;

    assert_eq!(outcome.kind, OutcomeKind::Cancelled);
    assert_eq!(fixture.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_execution_that_cannot_be_ended_alone_is_ended_with_its_sandbox() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    let execution = fixture.run(&engine, id, "hang").await;
    fixture.faults.always(Call::Kill, fault(Fault::Fails));

    engine.cancel(id, execution).await.unwrap();
    let outcome = fixture.outcome(&engine, id, execution).await;
    let stop = fixture.stop(&engine, id).await;

    assert_eq!(outcome.kind, OutcomeKind::Cancelled);
    assert_eq!(fixture.now(), 10 * SECOND);
    assert!(matches!(stop, StopProgress::Gone { cause: Cause::ProviderError, .. }));
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_one_shot_sandbox_ends_with_its_execution_and_takes_its_cause() {
    let cases = [
        ("true", Cause::Completed, State::Completed),
        ("exit 3", Cause::ExitNonzero, State::Failed),
        ("hang", Cause::TimeLimit, State::Failed),
    ];
    for (command, cause, state) in cases {
        let fixture = Fixture::new();
        let engine = fixture.start_engine().await;
        let one_shot = Policy { one_shot: true, ..Policy::default() };
        let id = fixture.create(&engine, one_shot).await;

        let execution = fixture.run_within(&engine, id, command, within(10)).await;
        fixture.until(id, MINUTE, |sandbox| sandbox.is_settled()).await;

        assert_eq!(fixture.state(id).await, state, "{command}");
        assert_eq!(fixture.times(id, |fact| *fact == Fact::Ended { cause }).await.len(), 1, "{command}");
        assert_eq!(fixture.outcome(&engine, id, execution).await.cause, cause);
        fixture.assert_nothing_is_left().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_unused_sandbox_ends_as_idle_and_one_kept_alive_later() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let idle = Policy { idle_ms: Some(20 * SECOND), ..Policy::default() };
    let (left, kept) = (fixture.ready(&engine, idle.clone()).await, fixture.ready(&engine, idle).await);
    fixture.pass_ms(15 * SECOND).await;

    engine.keep_alive(kept).await.unwrap();
    fixture.until(kept, MINUTE, |sandbox| sandbox.is_settled()).await;

    let is_end = |fact: &Fact| *fact == Fact::EndDecided { cause: Cause::Idle };
    assert_eq!(fixture.times(left, is_end).await, [20 * SECOND]);
    assert_eq!(fixture.times(kept, is_end).await, [35 * SECOND]);
}

#[tokio::test(start_paused = true)]
async fn a_busy_sandbox_is_not_idle_but_its_maximum_life_ends_it() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let short_lived = Policy { idle_ms: Some(10 * SECOND), max_life_ms: MINUTE, ..Policy::default() };
    let id = fixture.ready(&engine, short_lived).await;

    let execution = fixture.run(&engine, id, "hang").await;
    let outcome = fixture.outcome(&engine, id, execution).await;
    let stop = fixture.stop(&engine, id).await;

    assert_eq!((outcome.kind, fixture.now()), (OutcomeKind::TimedOut, MINUTE));
    assert!(matches!(stop, StopProgress::Gone { cause: Cause::MaxLife, .. }));
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_accepts_no_work_in_time_is_ended_and_one_that_works_is_not() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let accepting = Policy { accept_ms: Some(10 * SECOND), ..Policy::default() };
    let (idle, busy) =
        (fixture.ready(&engine, accepting.clone()).await, fixture.ready(&engine, accepting).await);
    fixture.faults.next(Call::Exec, hangs());
    fixture.run(&engine, idle, "hang").await;
    fixture.run(&engine, busy, "hang").await;

    fixture.until(idle, MINUTE, |sandbox| sandbox.is_settled()).await;

    assert_eq!(
        fixture.times(idle, |fact| *fact == Fact::Ended { cause: Cause::StartDeadline }).await,
        [10 * SECOND]
    );
    assert_eq!(fixture.state(busy).await, State::Running);
}
