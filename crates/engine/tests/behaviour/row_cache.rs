//! The row cache: an engine decides on its last write without a read, and notices commits of other engines.

use pinfold_engine::{ApplyError, Config, StopProgress};
use pinfold_lifecycle::{Cause, Fact, Policy, Refusal};
use pinfold_provider::fake::Call;

use crate::fakes::slow;
use crate::fixture::{Fixture, MINUTE, SECOND};

/// An engine that does not poll.
fn without_polling() -> Config {
    Config { poll_ms: 60 * MINUTE, heartbeat_ms: 60 * MINUTE, ..Config::default() }
}

#[tokio::test(start_paused = true)]
async fn a_request_on_a_row_changed_by_another_engine_is_granted_on_the_current_row() {
    let fixture = Fixture::new();
    let (engine, other) = (fixture.start_engine_with(without_polling()).await, fixture.start_engine().await);
    let id = fixture.ready(&engine, Policy::default()).await;
    let first = fixture.run(&other, id, "sleep 5").await;

    let second = fixture.run(&engine, id, "sleep 5").await;
    fixture.pass_ms(SECOND).await;

    let known: Vec<_> = fixture.sandbox(id).await.executions.iter().map(|execution| execution.id).collect();
    assert_eq!(known, [first, second]);
    assert_eq!(fixture.running(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_request_after_another_engine_ended_the_sandbox_is_refused() {
    let fixture = Fixture::new();
    let (engine, other) = (fixture.start_engine_with(without_polling()).await, fixture.start_engine().await);
    let id = fixture.ready(&engine, Policy::default()).await;
    fixture.stop(&other, id).await;

    let refused = engine.restart(id, Cause::StoppedByUser).await;

    assert!(matches!(refused, Err(ApplyError::Refused(Refusal::Ended { .. }))), "{refused:?}");
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_never_based_on_a_row_changed_by_another_engine() {
    let fixture = Fixture::new();
    let (engine, other) = (fixture.start_engine_with(without_polling()).await, fixture.start_engine().await);
    let policy = Policy { max_concurrent: 1, queue_length: 0, ..Policy::default() };
    let id = fixture.ready(&engine, policy).await;
    let first = fixture.run(&engine, id, "sleep 5").await;
    fixture.pass_ms(SECOND).await;
    other.cancel(id, first).await.unwrap();
    fixture.until(id, SECOND, |sandbox| sandbox.executions.is_empty()).await;

    let second = fixture.run(&engine, id, "exit 3").await;

    assert_ne!(first, second);
}

#[tokio::test(start_paused = true)]
async fn a_stop_by_another_engine_during_a_launch_is_not_overtaken_by_it() {
    let fixture = Fixture::new();
    let (engine, other) = (fixture.start_engine_with(without_polling()).await, fixture.start_engine().await);
    fixture.faults.next(Call::Start, slow(3 * SECOND));
    let id = fixture.create(&engine, Policy::default()).await;
    fixture.pass_ms(SECOND).await;

    let stop = fixture.stop(&other, id).await;
    fixture.pass_ms(10 * SECOND).await;

    assert!(matches!(stop, StopProgress::Gone { .. }), "{stop:?}");
    assert_eq!(fixture.times(id, |fact| matches!(fact, Fact::BecameReady { .. })).await, [] as [u64; 0]);
    fixture.assert_nothing_is_left().await;
}
