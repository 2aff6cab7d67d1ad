//! What ends work although nobody asked: its time, its silence, its idleness, its last command. And what a user
//! ends by itself.

use pinfold_engine::{ApplyError, Stop};
use pinfold_lifecycle::{Cause, ExecutionLimits, Fact, Outcome, OutcomeKind, Policy, Refusal, State};
use pinfold_provider::fake::{Call, Fault};

use crate::seams::{fault, hangs, slow};
use crate::stage::{MINUTE, SECOND, Stage};

fn within(seconds: u64) -> ExecutionLimits {
    ExecutionLimits { timeout_ms: Some(seconds * SECOND), inactivity_ms: None }
}

fn quiet_for(seconds: u64) -> ExecutionLimits {
    ExecutionLimits { timeout_ms: None, inactivity_ms: Some(seconds * SECOND) }
}

#[tokio::test(start_paused = true)]
async fn an_execution_ends_at_its_time_limit_and_its_sandbox_goes_on() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;

    let execution = stage.run_within(&engine, id, "work 60000 0", within(10)).await;
    let outcome = stage.outcome(&engine, id, execution).await;

    assert_eq!((outcome.kind, outcome.cause), (OutcomeKind::TimedOut, Cause::TimeLimit));
    assert_eq!(stage.now(), 10 * SECOND);
    assert_eq!(stage.running(), 0);
    assert_eq!(stage.state(id).await, State::Ready);
}

#[tokio::test(start_paused = true)]
async fn a_silent_execution_ends_for_inactivity_and_a_chatty_one_does_not() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;

    let chatty = stage.run_within(&engine, id, "work 120000 0", quiet_for(5)).await;
    let silent = stage.run_within(&engine, id, "sleep 120", quiet_for(5)).await;
    let of_the_silent = stage.outcome(&engine, id, silent).await;
    let silent_until = stage.now();
    let of_the_chatty = stage.outcome(&engine, id, chatty).await;

    assert_eq!((of_the_silent.kind, of_the_silent.cause), (OutcomeKind::TimedOut, Cause::Inactivity));
    assert_eq!(silent_until, 5 * SECOND);
    assert_eq!(of_the_chatty, Outcome::exited(0));
    assert_eq!(stage.now(), 2 * MINUTE);
}

#[tokio::test(start_paused = true)]
async fn a_look_that_fails_does_not_take_an_execution_for_silent() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    for _ in 0..3 {
        stage.weather.next(Call::Observe, fault(Fault::LookFails));
    }

    let execution = stage.run_within(&engine, id, "work 20000 0", quiet_for(5)).await;
    let outcome = stage.outcome(&engine, id, execution).await;

    assert_eq!(outcome, Outcome::exited(0));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_execution_ends_with_its_process_and_the_rest_goes_on() {
    let stage = Stage::new();
    let (engine, other) = (stage.begin().await, stage.begin().await);
    let id = stage.ready(&engine, Policy { side_by_side: 2, ..Policy::default() }).await;
    let (kept, running) = (stage.run(&engine, id, "sleep 9").await, stage.run(&engine, id, "hang").await);
    let queued = stage.run(&engine, id, "hang").await;
    stage.pass_ms(SECOND).await;

    other.cancel(id, queued).await.unwrap();
    other.cancel(id, running).await.unwrap();
    let outcomes = [stage.outcome(&engine, id, queued).await, stage.outcome(&engine, id, running).await];

    assert!(outcomes.iter().all(|ended| ended.kind == OutcomeKind::Cancelled), "{outcomes:?}");
    assert_eq!(stage.running(), 1);
    assert_eq!(stage.outcome(&engine, id, kept).await, Outcome::exited(0));
    assert_eq!(stage.now(), 9 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_of_an_execution_that_never_was_says_so() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;

    let cancelled = engine.cancel(id, pinfold_lifecycle::ExecutionId(7)).await;

    assert!(matches!(cancelled, Err(ApplyError::Refused(Refusal::NoSuchExecution))));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_overtakes_the_start_lets_no_process_be_made_later() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    stage.weather.next(Call::Exec, slow(5 * SECOND));
    let execution = stage.run(&engine, id, "hang").await;
    stage.pass_ms(SECOND).await;

    engine.cancel(id, execution).await.unwrap();
    let outcome = stage.outcome(&engine, id, execution).await;
    stage.pass_ms(10 * SECOND).await;

    assert_eq!(outcome.kind, OutcomeKind::Cancelled);
    assert_eq!(stage.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_execution_that_cannot_be_ended_alone_is_ended_with_its_sandbox() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    let execution = stage.run(&engine, id, "hang").await;
    stage.weather.always(Call::Kill, fault(Fault::Fails));

    engine.cancel(id, execution).await.unwrap();
    let outcome = stage.outcome(&engine, id, execution).await;
    let stop = stage.stop(&engine, id).await;

    assert_eq!(outcome.kind, OutcomeKind::Cancelled);
    assert_eq!(stage.now(), 10 * SECOND);
    assert!(matches!(stop, Stop::Gone { cause: Cause::ProviderError, .. }));
    stage.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_one_shot_sandbox_ends_with_its_execution_and_takes_its_cause() {
    let cases = [
        ("true", Cause::Completed, State::Completed),
        ("exit 3", Cause::ExitNonzero, State::Failed),
        ("hang", Cause::TimeLimit, State::Failed),
    ];
    for (command, cause, state) in cases {
        let stage = Stage::new();
        let engine = stage.begin().await;
        let one_shot = Policy { one_shot: true, ..Policy::default() };
        let id = stage.create(&engine, one_shot).await;

        let execution = stage.run_within(&engine, id, command, within(10)).await;
        stage.until(id, MINUTE, |sandbox| sandbox.is_settled()).await;

        assert_eq!(stage.state(id).await, state, "{command}");
        assert_eq!(stage.times(id, |fact| *fact == Fact::Ended { cause }).await.len(), 1, "{command}");
        assert_eq!(stage.outcome(&engine, id, execution).await.cause, cause);
        stage.assert_nothing_is_left().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_nobody_uses_ends_as_idle_and_one_that_is_kept_alive_later() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let idle = Policy { idle_ms: Some(20 * SECOND), ..Policy::default() };
    let (left, kept) = (stage.ready(&engine, idle.clone()).await, stage.ready(&engine, idle).await);
    stage.pass_ms(15 * SECOND).await;

    engine.keep_alive(kept).await.unwrap();
    stage.until(kept, MINUTE, |sandbox| sandbox.is_settled()).await;

    let is_end = |fact: &Fact| *fact == Fact::EndDecided { cause: Cause::Idle };
    assert_eq!(stage.times(left, is_end).await, [20 * SECOND]);
    assert_eq!(stage.times(kept, is_end).await, [35 * SECOND]);
}

#[tokio::test(start_paused = true)]
async fn a_busy_sandbox_is_not_idle_but_its_maximum_life_ends_it() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let short_lived = Policy { idle_ms: Some(10 * SECOND), max_life_ms: MINUTE, ..Policy::default() };
    let id = stage.ready(&engine, short_lived).await;

    let execution = stage.run(&engine, id, "hang").await;
    let outcome = stage.outcome(&engine, id, execution).await;
    let stop = stage.stop(&engine, id).await;

    assert_eq!((outcome.kind, stage.now()), (OutcomeKind::TimedOut, MINUTE));
    assert!(matches!(stop, Stop::Gone { cause: Cause::MaxLife, .. }));
    stage.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_accepts_no_work_in_time_is_ended_and_one_that_works_is_not() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let accepting = Policy { accept_ms: Some(10 * SECOND), ..Policy::default() };
    let (idle, busy) = (stage.ready(&engine, accepting.clone()).await, stage.ready(&engine, accepting).await);
    stage.weather.next(Call::Exec, hangs());
    stage.run(&engine, idle, "hang").await;
    stage.run(&engine, busy, "hang").await;

    stage.until(idle, MINUTE, |sandbox| sandbox.is_settled()).await;

    assert_eq!(
        stage.times(idle, |fact| *fact == Fact::Ended { cause: Cause::StartDeadline }).await,
        [10 * SECOND]
    );
    assert_eq!(stage.state(busy).await, State::Running);
}
