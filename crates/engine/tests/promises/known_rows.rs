//! An engine decides on what it wrote last without reading it again, and notices when others were quicker.

use pinfold_engine::{ApplyError, Config, Stop};
use pinfold_lifecycle::{Cause, Fact, Policy, Refusal};
use pinfold_provider::fake::Call;

use crate::seams::slow;
use crate::stage::{MINUTE, SECOND, Stage};

/// It does not look at what others do.
fn blind() -> Config {
    Config { poll_ms: 60 * MINUTE, heartbeat_ms: 60 * MINUTE, ..Config::default() }
}

#[tokio::test(start_paused = true)]
async fn a_wish_on_a_row_that_another_engine_has_changed_is_granted_on_the_row_as_it_is() {
    let stage = Stage::new();
    let (engine, other) = (stage.begin_with(blind()).await, stage.begin().await);
    let id = stage.ready(&engine, Policy::default()).await;
    let first = stage.run(&other, id, "sleep 5").await;

    let second = stage.run(&engine, id, "sleep 5").await;
    stage.pass_ms(SECOND).await;

    let known: Vec<_> = stage.sandbox(id).await.executions.iter().map(|execution| execution.id).collect();
    assert_eq!(known, [first, second]);
    assert_eq!(stage.running(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_wish_after_another_engine_has_ended_the_sandbox_is_refused() {
    let stage = Stage::new();
    let (engine, other) = (stage.begin_with(blind()).await, stage.begin().await);
    let id = stage.ready(&engine, Policy::default()).await;
    stage.stop(&other, id).await;

    let refused = engine.restart(id, Cause::StoppedByUser).await;

    assert!(matches!(refused, Err(ApplyError::Refused(Refusal::Ended { .. }))), "{refused:?}");
    stage.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_never_for_a_reason_that_another_engine_has_removed() {
    let stage = Stage::new();
    let (engine, other) = (stage.begin_with(blind()).await, stage.begin().await);
    let policy = Policy { side_by_side: 1, queue_length: 0, ..Policy::default() };
    let id = stage.ready(&engine, policy).await;
    let first = stage.run(&engine, id, "sleep 5").await;
    stage.pass_ms(SECOND).await;
    other.cancel(id, first).await.unwrap();
    stage.until(id, SECOND, |sandbox| sandbox.executions.is_empty()).await;

    let second = stage.run(&engine, id, "exit 3").await;

    assert_ne!(first, second);
}

#[tokio::test(start_paused = true)]
async fn a_stop_by_another_engine_while_a_launch_is_under_way_is_not_overtaken_by_it() {
    let stage = Stage::new();
    let (engine, other) = (stage.begin_with(blind()).await, stage.begin().await);
    stage.weather.next(Call::Start, slow(3 * SECOND));
    let id = stage.create(&engine, Policy::default()).await;
    stage.pass_ms(SECOND).await;

    let stop = stage.stop(&other, id).await;
    stage.pass_ms(10 * SECOND).await;

    assert!(matches!(stop, Stop::Gone { .. }), "{stop:?}");
    assert_eq!(stage.times(id, |fact| matches!(fact, Fact::BecameReady { .. })).await, [] as [u64; 0]);
    stage.assert_nothing_is_left().await;
}
