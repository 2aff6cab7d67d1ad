//! Vanished instances and unreadable rows: neither proves more than it shows.

use pinfold_engine::{ApplyError, OnExit, StopProgress};
use pinfold_lifecycle::{
    Cause, Fact, Lease, Life, Outcome, OutcomeKind, Policy, Refusal, SandboxId, State, StopFailure,
};
use pinfold_provider::fake::{Call, Fault};
use pinfold_store::{Row, SandboxFilter, Store};

use crate::fakes::fault;
use crate::fixture::{Fixture, MINUTE, SECOND, first_check_ms, instance_of};

#[tokio::test(start_paused = true)]
async fn an_instance_that_disappears_ends_its_sandbox_and_its_executions_as_lost() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    let execution = fixture.run(&engine, id, "hang").await;
    fixture.pass_ms(SECOND).await;

    fixture.world.kill_instance(instance_of(&fixture.sandbox(id).await), false);
    let outcome = fixture.outcome(&engine, id, execution).await;
    let stop = fixture.stop(&engine, id).await;

    assert_eq!((outcome.kind, outcome.cause), (OutcomeKind::Lost, Cause::Lost));
    assert!(matches!(stop, StopProgress::Gone { cause: Cause::Lost, .. }));
    assert!(fixture.now() < 3 * SECOND);
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_vanished_idle_instance_is_noticed_by_the_next_routine_probe() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;

    fixture.world.kill_instance(instance_of(&fixture.sandbox(id).await), false);
    fixture.until(id, MINUTE, |sandbox| sandbox.is_settled()).await;

    assert_eq!(
        fixture.times(id, |fact| *fact == Fact::Ended { cause: Cause::Lost }).await,
        [first_check_ms(id)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_dead_instance_with_a_marker_is_cleaned_up() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    let execution = fixture.run(&engine, id, "hang").await;
    fixture.pass_ms(SECOND).await;

    fixture.world.kill_instance(instance_of(&fixture.sandbox(id).await), true);
    let outcome = fixture.outcome(&engine, id, execution).await;
    fixture.until(id, MINUTE, |sandbox| sandbox.is_settled()).await;

    assert_ne!(outcome.kind, OutcomeKind::Exited);
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_observation_does_not_make_an_instance_lost() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    for call in [Call::Ping, Call::Probe, Call::Observe, Call::Observe] {
        fixture.faults.next(call, fault(Fault::ObserveFails));
    }

    let execution = fixture.run(&engine, id, "sleep 40").await;
    let outcome = fixture.outcome(&engine, id, execution).await;

    assert_eq!(outcome, Outcome::exited(0));
    assert_eq!(fixture.state(id).await, State::Ready);
}

#[tokio::test(start_paused = true)]
async fn sandboxes_lost_in_a_reboot_end_with_that_cause() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    let execution = fixture.run(&engine, id, "hang").await;
    fixture.pass_ms(SECOND).await;

    fixture.reboot(engine);
    let next = fixture.start_engine().await;
    let outcome = fixture.outcome(&next, id, execution).await;
    let stop = fixture.stop(&next, id).await;

    assert_eq!((outcome.kind, outcome.cause), (OutcomeKind::Lost, Cause::HostRestarted));
    assert!(matches!(stop, StopProgress::Gone { cause: Cause::HostRestarted, .. }));
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn sandboxes_kept_by_an_orderly_shutdown_before_a_reboot_end_with_that_cause_too() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    engine.shutdown(OnExit::Keep, SECOND).await.unwrap();

    fixture.reboot(engine);
    let _next = fixture.start_engine().await;
    fixture.until(id, SECOND, |sandbox| sandbox.is_settled()).await;

    let life = fixture.sandbox(id).await.life;
    assert!(matches!(life, Life::Ended { cause: Cause::HostRestarted, .. }), "{life:?}");
}

/// Corrupts the row, like a defective disk.
fn corrupt(fixture: &Fixture) {
    fixture.store.execute_raw_sql("UPDATE sandboxes SET state = '{\"half\":'").unwrap();
}

async fn lease(fixture: &Fixture, id: SandboxId) -> Lease {
    fixture.sandbox(id).await.lease
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_row_is_shown_and_quarantined_by_the_next_request() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    // An engine does not read a row it wrote a moment ago.
    fixture.pass_ms(SECOND).await;

    corrupt(&fixture);
    let shown = fixture.store.list(SandboxFilter::Present, None, 10).await.unwrap();
    let touched = engine.keep_alive(id).await;

    assert!(matches!(shown.as_slice(), [Row::Unreadable(row)] if row.id == id));
    assert!(matches!(touched, Err(ApplyError::Refused(Refusal::Ending { cause: Cause::ProviderError }))));
    let lease = lease(&fixture, id).await;
    let why = StopFailure::UnreadableRow { why: String::new() };
    assert!(
        matches!(&lease, Lease::Quarantined { last, .. } if std::mem::discriminant(last) == std::mem::discriminant(&why)),
        "{lease:?}"
    );
    assert_eq!(fixture.instances().len(), 1);
    fixture.assert_sum().await;
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_row_is_found_by_its_deadline_and_freed_only_when_absence_is_observed() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    let instance = instance_of(&fixture.sandbox(id).await);

    corrupt(&fixture);
    fixture.pass_ms(MINUTE).await;
    let quarantined = fixture.state(id).await;
    let while_it_is_there = engine.stop(id, Cause::StoppedByUser, None, MINUTE).await.unwrap();
    fixture.world.kill_instance(instance, false);
    let after_it_is_gone = fixture.stop(&engine, id).await;

    assert_eq!(quarantined, State::Quarantined);
    assert_eq!(while_it_is_there, StopProgress::Pending);
    assert!(matches!(after_it_is_gone, StopProgress::Gone { cause: Cause::ProviderError, .. }));
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_forced_stop_ends_the_instance_of_an_unreadable_row() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    corrupt(&fixture);
    fixture.until_quarantined(id).await;

    let stop = engine.stop(id, Cause::StoppedByUser, Some(0), MINUTE).await.unwrap();

    assert!(matches!(stop, StopProgress::Gone { cause: Cause::ProviderError, .. }), "{stop:?}");
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn an_execution_of_an_unreadable_row_ends_too() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    let execution = fixture.run(&engine, id, "hang").await;
    fixture.pass_ms(SECOND).await;
    let instance = instance_of(&fixture.sandbox(id).await);

    corrupt(&fixture);
    fixture.world.kill_instance(instance, false);
    engine.forget(id).await.unwrap_or_default();
    let history = fixture.times(id, |fact| matches!(fact, Fact::Quarantined { .. })).await;

    assert_eq!(history.len(), 1);
    fixture.pass_ms(MINUTE).await;
    let left = fixture.store.execution(execution).await.unwrap();
    assert!(left.is_none_or(|stored| stored.execution.outcome().is_some()));
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_row_stays_when_its_owner_dies() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    corrupt(&fixture);

    fixture.crash(engine);
    let next = fixture.start_engine().await;
    fixture.until_quarantined(id).await;
    let stop = next.stop(id, Cause::StoppedByUser, None, SECOND).await.unwrap();

    assert_eq!(stop, StopProgress::Pending);
    assert!(matches!(fixture.sandbox(id).await.life, Life::Ending { cause: Cause::ProviderError, .. }));
    assert_eq!(fixture.instances().len(), 1);
    fixture.assert_sum().await;
}

impl Fixture {
    async fn until_quarantined(&self, id: SandboxId) {
        let deadline = self.now() + MINUTE;
        while !matches!(self.store.load(id).await.unwrap(), Some(Row::Readable(_))) {
            assert!(self.now() < deadline, "the row was not changed");
            self.pass_ms(100).await;
        }
        assert_eq!(self.state(id).await, State::Quarantined);
    }
}
