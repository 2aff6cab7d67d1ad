//! Bodies that disappear and rows that cannot be read: neither is taken for more than it proves.

use pinfold_engine::{ApplyError, OnExit, Stop};
use pinfold_lifecycle::{
    Cause, Fact, Lease, Life, Outcome, OutcomeKind, Policy, Refusal, SandboxId, State, StopFailure,
};
use pinfold_provider::fake::{Call, Fault};
use pinfold_store::{Filter, Row, Store};

use crate::seams::fault;
use crate::stage::{MINUTE, SECOND, Stage, body_of, first_check_ms};

#[tokio::test(start_paused = true)]
async fn a_body_that_disappears_ends_its_sandbox_and_its_executions_as_lost() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    let execution = stage.run(&engine, id, "hang").await;
    stage.pass_ms(SECOND).await;

    stage.world.kill_body(body_of(&stage.sandbox(id).await), false);
    let outcome = stage.outcome(&engine, id, execution).await;
    let stop = stage.stop(&engine, id).await;

    assert_eq!((outcome.kind, outcome.cause), (OutcomeKind::Lost, Cause::Lost));
    assert!(matches!(stop, Stop::Gone { cause: Cause::Lost, .. }));
    assert!(stage.now() < 3 * SECOND);
    stage.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_body_that_disappears_is_missed_by_the_next_routine_probe() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;

    stage.world.kill_body(body_of(&stage.sandbox(id).await), false);
    stage.until(id, MINUTE, |sandbox| sandbox.is_settled()).await;

    assert_eq!(
        stage.times(id, |fact| *fact == Fact::Ended { cause: Cause::Lost }).await,
        [first_check_ms(id)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_body_that_dies_and_leaves_its_mark_is_cleaned_up() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    let execution = stage.run(&engine, id, "hang").await;
    stage.pass_ms(SECOND).await;

    stage.world.kill_body(body_of(&stage.sandbox(id).await), true);
    let outcome = stage.outcome(&engine, id, execution).await;
    stage.until(id, MINUTE, |sandbox| sandbox.is_settled()).await;

    assert_ne!(outcome.kind, OutcomeKind::Exited);
    stage.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_look_that_fails_does_not_take_a_body_for_lost() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    for call in [Call::Ping, Call::Probe, Call::Observe, Call::Observe] {
        stage.weather.next(call, fault(Fault::LookFails));
    }

    let execution = stage.run(&engine, id, "sleep 40").await;
    let outcome = stage.outcome(&engine, id, execution).await;

    assert_eq!(outcome, Outcome::exited(0));
    assert_eq!(stage.state(id).await, State::Ready);
}

#[tokio::test(start_paused = true)]
async fn what_a_restart_of_the_host_took_ends_with_that_cause() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    let execution = stage.run(&engine, id, "hang").await;
    stage.pass_ms(SECOND).await;

    stage.reboot(engine);
    let next = stage.begin().await;
    let outcome = stage.outcome(&next, id, execution).await;
    let stop = stage.stop(&next, id).await;

    assert_eq!((outcome.kind, outcome.cause), (OutcomeKind::Lost, Cause::HostRestarted));
    assert!(matches!(stop, Stop::Gone { cause: Cause::HostRestarted, .. }));
    stage.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_left_in_order_before_the_restart_of_the_host_ends_with_that_cause_too() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    engine.shutdown(OnExit::Keep, SECOND).await.unwrap();

    stage.reboot(engine);
    let _next = stage.begin().await;
    stage.until(id, SECOND, |sandbox| sandbox.is_settled()).await;

    let life = stage.sandbox(id).await.life;
    assert!(matches!(life, Life::Ended { cause: Cause::HostRestarted, .. }), "{life:?}");
}

/// As a defective disk or a careless hand would.
fn spoil(stage: &Stage) {
    stage.store.tamper("UPDATE sandboxes SET state = '{\"half\":'").unwrap();
}

async fn lease(stage: &Stage, id: SandboxId) -> Lease {
    stage.sandbox(id).await.lease
}

#[tokio::test(start_paused = true)]
async fn a_row_that_cannot_be_read_is_shown_and_the_next_touch_quarantines_it() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    // What an engine wrote a moment ago it does not read.
    stage.pass_ms(SECOND).await;

    spoil(&stage);
    let shown = stage.store.list(Filter::Present, None, 10).await.unwrap();
    let touched = engine.keep_alive(id).await;

    assert!(matches!(shown.as_slice(), [Row::Unreadable(row)] if row.id == id));
    assert!(matches!(touched, Err(ApplyError::Refused(Refusal::Ending { cause: Cause::ProviderError }))));
    let lease = lease(&stage, id).await;
    let why = StopFailure::UnreadableRow { why: String::new() };
    assert!(
        matches!(&lease, Lease::Quarantined { last, .. } if std::mem::discriminant(last) == std::mem::discriminant(&why)),
        "{lease:?}"
    );
    assert_eq!(stage.bodies().len(), 1);
    stage.assert_sum().await;
}

#[tokio::test(start_paused = true)]
async fn a_row_that_cannot_be_read_is_found_by_its_deadline_and_freed_only_when_a_look_proves_absence() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    let body = body_of(&stage.sandbox(id).await);

    spoil(&stage);
    stage.pass_ms(MINUTE).await;
    let quarantined = stage.state(id).await;
    let while_it_is_there = engine.stop(id, Cause::StoppedByUser, false, MINUTE).await.unwrap();
    stage.world.kill_body(body, false);
    let after_it_is_gone = stage.stop(&engine, id).await;

    assert_eq!(quarantined, State::Quarantined);
    assert_eq!(while_it_is_there, Stop::Pending);
    assert!(matches!(after_it_is_gone, Stop::Gone { cause: Cause::ProviderError, .. }));
    stage.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn whoever_insists_ends_the_body_of_a_row_that_cannot_be_read() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    spoil(&stage);
    stage.until_quarantined(id).await;

    let stop = engine.stop(id, Cause::StoppedByUser, true, MINUTE).await.unwrap();

    assert!(matches!(stop, Stop::Gone { cause: Cause::ProviderError, .. }), "{stop:?}");
    stage.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn an_execution_of_a_row_that_cannot_be_read_ends_too() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    let execution = stage.run(&engine, id, "hang").await;
    stage.pass_ms(SECOND).await;
    let body = body_of(&stage.sandbox(id).await);

    spoil(&stage);
    stage.world.kill_body(body, false);
    engine.forget(id).await.unwrap_or_default();
    let history = stage.times(id, |fact| matches!(fact, Fact::Quarantined { .. })).await;

    assert_eq!(history.len(), 1);
    stage.pass_ms(MINUTE).await;
    let left = stage.store.execution(execution).await.unwrap();
    assert!(left.is_none_or(|stored| stored.execution.outcome().is_some()));
    stage.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_row_that_cannot_be_read_stays_when_its_owner_dies() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    spoil(&stage);

    stage.crash(engine);
    let next = stage.begin().await;
    stage.until_quarantined(id).await;
    let stop = next.stop(id, Cause::StoppedByUser, false, SECOND).await.unwrap();

    assert_eq!(stop, Stop::Pending);
    assert!(matches!(stage.sandbox(id).await.life, Life::Ending { cause: Cause::ProviderError, .. }));
    assert_eq!(stage.bodies().len(), 1);
    stage.assert_sum().await;
}

impl Stage {
    async fn until_quarantined(&self, id: SandboxId) {
        let deadline = self.now() + MINUTE;
        while !matches!(self.store.load(id).await.unwrap(), Some(Row::Readable(_))) {
            assert!(self.now() < deadline, "nobody touched it");
            self.pass_ms(100).await;
        }
        assert_eq!(self.state(id).await, State::Quarantined);
    }
}
