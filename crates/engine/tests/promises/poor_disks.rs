//! A store that fails for a while: what the world has answered is not forgotten, what was written is picked up,
//! and nothing is done twice.

use pinfold_engine::{AdmitError, ApplyError, Clock, CreateAsk, Stop};
use pinfold_lifecycle::{Cause, Generation, Lease, Outcome, OutcomeKind, Policy, State};
use pinfold_provider::fake::{Call, Fault};
use pinfold_store::{CreateError, Fault as WriteFault, Store, StoreError};

use crate::seams::{answered_after, fault};
use crate::stage::{MINUTE, SECOND, Stage};

impl Stage {
    /// Every write fails like this for so long.
    fn spoil_disk(&self, how: WriteFault, for_ms: u64) {
        let (clock, until) = (self.clock.clone(), self.clock.now().after_ms(for_ms));
        self.store.fail_writes(move || (clock.now() < until).then_some(how));
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_while_the_disk_is_full_is_delivered_when_it_is_not() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    stage.weather.next(Call::Stop, answered_after(SECOND));
    stage.ask_to_stop(&engine, id).await;

    stage.spoil_disk(WriteFault::DiskFull, 20 * SECOND);
    stage.pass_ms(10 * SECOND).await;
    let meanwhile = stage.state(id).await;
    let stop = stage.stop(&engine, id).await;

    assert_eq!(meanwhile, State::Terminating);
    assert!(matches!(stop, Stop::Gone { cause: Cause::StoppedByUser, .. }));
    assert!(stage.now() <= 23 * SECOND, "{}", stage.now());
    assert_eq!(stage.weather.calls(Call::Stop), 1);
    stage.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn the_outcome_of_an_execution_that_ends_while_the_disk_is_full_is_kept() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    let execution = stage.run(&engine, id, "work 5000 9").await;
    stage.pass_ms(SECOND).await;

    stage.spoil_disk(WriteFault::DiskFull, 10 * SECOND);
    let outcome = stage.outcome(&engine, id, execution).await;

    assert_eq!(outcome, Outcome::exited(9));
    assert!(stage.now() >= 11 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_wish_on_a_full_disk_is_answered_with_the_reason_and_changes_nothing() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    let before = stage.sandbox(id).await;
    stage.spoil_disk(WriteFault::DiskFull, SECOND);

    let created = engine.create(CreateAsk::default()).await;
    let stopped = engine.stop(id, Cause::StoppedByUser, false, MINUTE).await;

    assert!(matches!(created, Err(AdmitError::Create(CreateError::Store(StoreError::DiskFull { .. })))));
    assert!(matches!(stopped, Err(ApplyError::Store(StoreError::DiskFull { .. }))));
    assert_eq!(stage.sandbox(id).await, before);
    assert_eq!(stage.store.totals().await.unwrap().created, 1);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_falls_due_while_the_disk_is_full_is_enforced_when_it_is_not() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let short_lived = Policy { max_life_ms: 10 * SECOND, ..Policy::default() };
    let id = stage.ready(&engine, short_lived).await;

    stage.spoil_disk(WriteFault::DiskFull, 15 * SECOND);
    let ended = stage.until(id, 20 * SECOND, |sandbox| sandbox.is_settled()).await;

    assert_eq!(ended.generation(), Generation(1));
    assert!(stage.now() <= 18 * SECOND, "{}", stage.now());
    stage.assert_nothing_is_left().await;
}

const UNCLEAR: [WriteFault; 2] = [WriteFault::UnclearWritten, WriteFault::UnclearNotWritten];

#[tokio::test(start_paused = true)]
async fn a_create_with_an_unclear_outcome_is_launched_once_or_not_at_all() {
    for unclear in UNCLEAR {
        let stage = Stage::new();
        let engine = stage.begin().await;
        stage.pass_ms(SECOND).await;
        stage.store.fail_next_writes(1, unclear);

        let created = engine.create(CreateAsk::default()).await;
        stage.pass_ms(MINUTE).await;

        let expected = usize::from(created.is_ok());
        assert_eq!(stage.bodies().len(), expected);
        assert_eq!(stage.store.totals().await.unwrap().created, expected as u64);
    }
}

#[tokio::test(start_paused = true)]
async fn an_execution_whose_commit_is_unclear_runs_once() {
    for unclear in UNCLEAR {
        let stage = Stage::new();
        let engine = stage.begin().await;
        let id = stage.ready(&engine, Policy::default()).await;
        stage.pass_ms(SECOND).await;
        stage.store.fail_next_writes(1, unclear);

        let execution = stage.run(&engine, id, "sleep 1").await;
        let outcome = stage.outcome(&engine, id, execution).await;

        assert_eq!(outcome, Outcome::exited(0));
        assert!(stage.now() <= 4 * SECOND, "{unclear:?}: {}", stage.now());
        assert_eq!(stage.weather.calls(Call::Exec), 1);
        assert_eq!(stage.store.executions(id).await.unwrap().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_whose_commit_is_unclear_is_carried_out() {
    for unclear in UNCLEAR {
        let stage = Stage::new();
        let engine = stage.begin().await;
        let id = stage.ready(&engine, Policy::default()).await;
        stage.pass_ms(SECOND).await;
        stage.store.fail_next_writes(1, unclear);

        let stop = stage.stop(&engine, id).await;

        assert!(matches!(stop, Stop::Gone { cause: Cause::StoppedByUser, .. }));
        assert!(stage.now() <= 4 * SECOND, "{unclear:?}: {}", stage.now());
        assert_eq!(stage.weather.calls(Call::Stop), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn every_answer_of_a_launch_may_be_written_unclearly() {
    for writes in 1..6 {
        for unclear in UNCLEAR {
            let stage = Stage::new();
            let engine = stage.begin().await;
            stage.pass_ms(SECOND).await;
            let id = stage.create(&engine, Policy::default()).await;
            stage.store.fail_next_writes(writes, unclear);

            let ready = stage.wait_ready(&engine, id).await;

            assert_eq!(ready, Ok(()), "{writes} {unclear:?}");
            assert_eq!(stage.sandbox(id).await.generation(), Generation(1));
            assert_eq!(stage.weather.calls(Call::Start), 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_whose_commit_is_unclear_is_granted() {
    for unclear in UNCLEAR {
        let stage = Stage::new();
        let engine = stage.begin().await;
        let id = stage.ready(&engine, Policy::default()).await;
        stage.pass_ms(SECOND).await;
        stage.store.fail_next_writes(1, unclear);

        engine.restart(id, Cause::StoppedByUser).await.unwrap();
        stage
            .until(
                id,
                5 * SECOND,
                |sandbox| matches!(&sandbox.lease, Lease::Live(live) if live.generation == Generation(2)),
            )
            .await;

        assert_eq!(stage.bodies().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_whose_commit_is_unclear_is_granted() {
    for unclear in UNCLEAR {
        let stage = Stage::new();
        let engine = stage.begin().await;
        let one_place = Policy { side_by_side: 1, ..Policy::default() };
        let id = stage.ready(&engine, one_place).await;
        stage.run(&engine, id, "hang").await;
        let queued = stage.run(&engine, id, "hang").await;
        stage.pass_ms(SECOND).await;
        stage.store.fail_next_writes(1, unclear);

        engine.cancel(id, queued).await.unwrap();

        assert_eq!(stage.outcome(&engine, id, queued).await.kind, OutcomeKind::Cancelled);
    }
}

#[tokio::test(start_paused = true)]
async fn an_attestation_whose_commit_is_unclear_is_granted() {
    for unclear in UNCLEAR {
        let stage = Stage::new();
        let engine = stage.begin().await;
        let id = stage.ready(&engine, Policy { stop_attempts: 1, ..Policy::default() }).await;
        stage.weather.always(Call::Stop, fault(Fault::Fails));
        stage.ask_to_stop(&engine, id).await;
        stage.pass_ms(SECOND).await;
        stage.store.fail_next_writes(1, unclear);

        engine.attest(id, "ada".into(), "the host burnt down".into()).await.unwrap();

        assert_eq!(stage.store.totals().await.unwrap().attested, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_forget_whose_commit_is_unclear_is_granted() {
    for unclear in UNCLEAR {
        let stage = Stage::new();
        let engine = stage.begin().await;
        let id = stage.ready(&engine, Policy::default()).await;
        stage.stop(&engine, id).await;
        stage.pass_ms(SECOND).await;
        stage.store.fail_next_writes(1, unclear);

        engine.forget(id).await.unwrap();

        assert!(stage.store.load(id).await.unwrap().is_none());
    }
}
