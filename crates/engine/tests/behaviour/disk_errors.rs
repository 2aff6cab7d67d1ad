//! A store that fails for a while: results of effects are kept, committed effects are resumed, and nothing
//! happens twice.

use pinfold_engine::{AdmitError, ApplyError, Clock, CreateRequest, Engine, StopProgress};
use pinfold_lifecycle::{Cause, Generation, Lease, Outcome, OutcomeKind, Policy, SandboxId, State};
use pinfold_provider::fake::{Call, Fault};
use pinfold_store::{CreateError, Store, StoreError};
use pinfold_store_sqlite::WriteFault;

use crate::fakes::{answered_after, fault};
use crate::fixture::{Fixture, MINUTE, SECOND};

impl Fixture {
    /// Every write fails this way for the given time.
    fn fail_writes_for(&self, how: WriteFault, for_ms: u64) {
        let (clock, until) = (self.clock.clone(), self.clock.now().after_ms(for_ms));
        self.store.fail_writes(move || (clock.now() < until).then_some(how));
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_arriving_while_the_disk_is_full_is_committed_afterwards() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    fixture.faults.next(Call::Stop, answered_after(SECOND));
    fixture.request_stop(&engine, id).await;

    fixture.fail_writes_for(WriteFault::DiskFull, 20 * SECOND);
    fixture.pass_ms(10 * SECOND).await;
    let meanwhile = fixture.state(id).await;
    let stop = fixture.stop(&engine, id).await;

    assert_eq!(meanwhile, State::Terminating);
    assert!(matches!(stop, StopProgress::Gone { cause: Cause::StoppedByUser, .. }));
    assert!(fixture.now() <= 23 * SECOND, "{}", fixture.now());
    assert_eq!(fixture.faults.calls(Call::Stop), 1);
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn the_outcome_of_an_execution_that_ends_while_the_disk_is_full_is_kept() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    let execution = fixture.run(&engine, id, "work 5000 9").await;
    fixture.pass_ms(SECOND).await;

    fixture.fail_writes_for(WriteFault::DiskFull, 10 * SECOND);
    let outcome = fixture.outcome(&engine, id, execution).await;

    assert_eq!(outcome, Outcome::exited(9));
    assert!(fixture.now() >= 11 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_request_on_a_full_disk_fails_with_the_reason_and_changes_nothing() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    let before = fixture.sandbox(id).await;
    fixture.fail_writes_for(WriteFault::DiskFull, SECOND);

    let created = engine.create(CreateRequest::default()).await;
    let stopped = engine.stop(id, Cause::StoppedByUser, None, MINUTE).await;

    assert!(matches!(created, Err(AdmitError::Create(CreateError::Store(StoreError::DiskFull { .. })))));
    assert!(matches!(stopped, Err(ApplyError::Store(StoreError::DiskFull { .. }))));
    assert_eq!(fixture.sandbox(id).await, before);
    assert_eq!(fixture.store.totals().await.unwrap().created, 1);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_due_while_the_disk_is_full_is_enforced_afterwards() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let short_lived = Policy { max_life_ms: 10 * SECOND, ..Policy::default() };
    let id = fixture.ready(&engine, short_lived).await;

    fixture.fail_writes_for(WriteFault::DiskFull, 15 * SECOND);
    let ended = fixture.until(id, 20 * SECOND, |sandbox| sandbox.is_settled()).await;

    assert_eq!(ended.generation(), Generation(1));
    assert!(fixture.now() <= 18 * SECOND, "{}", fixture.now());
    fixture.assert_nothing_is_left().await;
}

const UNKNOWN_OUTCOMES: [WriteFault; 2] = [WriteFault::UnknownWritten, WriteFault::UnknownNotWritten];

/// A ready sandbox, and a fault of the next write.
async fn ready_before_write(fault: WriteFault) -> (Fixture, Engine, SandboxId) {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    fixture.pass_ms(SECOND).await;
    fixture.store.fail_next_writes(1, fault);
    (fixture, engine, id)
}

#[tokio::test(start_paused = true)]
async fn a_create_with_unknown_outcome_is_launched_at_most_once() {
    for unclear in UNKNOWN_OUTCOMES {
        let fixture = Fixture::new();
        let engine = fixture.start_engine().await;
        fixture.pass_ms(SECOND).await;
        fixture.store.fail_next_writes(1, unclear);

        let created = engine.create(CreateRequest::default()).await;
        fixture.pass_ms(MINUTE).await;

        let expected = usize::from(created.is_ok());
        assert_eq!(fixture.instances().len(), expected);
        assert_eq!(fixture.store.totals().await.unwrap().created, expected as u64);
    }
}

#[tokio::test(start_paused = true)]
async fn an_execution_with_unknown_commit_outcome_runs_once() {
    for unclear in UNKNOWN_OUTCOMES {
        let (fixture, engine, id) = ready_before_write(unclear).await;

        let execution = fixture.run(&engine, id, "sleep 1").await;
        let outcome = fixture.outcome(&engine, id, execution).await;

        assert_eq!(outcome, Outcome::exited(0));
        assert!(fixture.now() <= 4 * SECOND, "{unclear:?}: {}", fixture.now());
        assert_eq!(fixture.faults.calls(Call::Exec), 1);
        assert_eq!(fixture.store.executions(id).await.unwrap().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn stop_with_unknown_commit_outcome_is_carried_out() {
    for unclear in UNKNOWN_OUTCOMES {
        let (fixture, engine, id) = ready_before_write(unclear).await;

        let stop = fixture.stop(&engine, id).await;

        assert!(matches!(stop, StopProgress::Gone { cause: Cause::StoppedByUser, .. }));
        assert!(fixture.now() <= 4 * SECOND, "{unclear:?}: {}", fixture.now());
        assert_eq!(fixture.faults.calls(Call::Stop), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn every_commit_of_a_launch_may_have_an_unknown_outcome() {
    for writes in 1..6 {
        for unclear in UNKNOWN_OUTCOMES {
            let fixture = Fixture::new();
            let engine = fixture.start_engine().await;
            fixture.pass_ms(SECOND).await;
            let id = fixture.create(&engine, Policy::default()).await;
            fixture.store.fail_next_writes(writes, unclear);

            let ready = fixture.wait_ready(&engine, id).await;

            assert_eq!(ready, Ok(()), "{writes} {unclear:?}");
            assert_eq!(fixture.sandbox(id).await.generation(), Generation(1));
            assert_eq!(fixture.faults.calls(Call::Start), 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn restart_with_unknown_commit_outcome_is_carried_out() {
    for unclear in UNKNOWN_OUTCOMES {
        let (fixture, engine, id) = ready_before_write(unclear).await;

        engine.restart(id, Cause::StoppedByUser).await.unwrap();
        fixture
            .until(
                id,
                5 * SECOND,
                |sandbox| matches!(&sandbox.lease, Lease::Live(live) if live.generation == Generation(2)),
            )
            .await;

        assert_eq!(fixture.instances().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn cancel_with_unknown_commit_outcome_is_carried_out() {
    for unclear in UNKNOWN_OUTCOMES {
        let fixture = Fixture::new();
        let engine = fixture.start_engine().await;
        let one_slot = Policy { max_concurrent: 1, ..Policy::default() };
        let id = fixture.ready(&engine, one_slot).await;
        fixture.run(&engine, id, "hang").await;
        let queued = fixture.run(&engine, id, "hang").await;
        fixture.pass_ms(SECOND).await;
        fixture.store.fail_next_writes(1, unclear);

        engine.cancel(id, queued).await.unwrap();

        assert_eq!(fixture.outcome(&engine, id, queued).await.kind, OutcomeKind::Cancelled);
    }
}

#[tokio::test(start_paused = true)]
async fn attestation_with_unknown_commit_outcome_is_carried_out() {
    for unclear in UNKNOWN_OUTCOMES {
        let fixture = Fixture::new();
        let engine = fixture.start_engine().await;
        let id = fixture.ready(&engine, Policy { stop_attempts: 1, ..Policy::default() }).await;
        fixture.faults.always(Call::Stop, fault(Fault::Fails));
        fixture.request_stop(&engine, id).await;
        fixture.pass_ms(SECOND).await;
        fixture.store.fail_next_writes(1, unclear);

        engine.attest(id, "ada".into(), "the host burnt down".into()).await.unwrap();

        assert_eq!(fixture.store.totals().await.unwrap().attested, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn forget_with_unknown_commit_outcome_is_carried_out() {
    for unclear in UNKNOWN_OUTCOMES {
        let fixture = Fixture::new();
        let engine = fixture.start_engine().await;
        let id = fixture.ready(&engine, Policy::default()).await;
        fixture.stop(&engine, id).await;
        fixture.pass_ms(SECOND).await;
        fixture.store.fail_next_writes(1, unclear);

        engine.forget(id).await.unwrap();

        assert!(fixture.store.load(id).await.unwrap().is_none());
    }
}
