//! Failures of the warm pool: instances that die, expire or cannot be extended, launches that fail, engines
//! that crash.

use pinfold_engine::{Config, CreateRequest, Engine};
use pinfold_lifecycle::{
    AdmissionLimits, Cause, Fact, Generation, Lease, Outcome, OutcomeKind, Policy, SandboxId,
};
use pinfold_provider::fake::{Call, Fault};
use pinfold_store::Store;
use pinfold_store_sqlite::WriteFault;

use crate::fakes::{fault, hangs};
use crate::fixture::{Fixture, MINUTE, SECOND, instance_of};
use crate::pool::{pool_of, requesting};

async fn given(fixture: &Fixture, engine: &Engine, policy: Policy) -> SandboxId {
    let waiting = fixture.until_pool_has(1).await;
    let id = engine.create(CreateRequest { policy: policy.into(), ..requesting() }).await.unwrap();
    assert_eq!(waiting, [id]);
    id
}

fn long_life() -> Policy {
    Policy { max_life_ms: 10 * 60 * MINUTE, idle_ms: None, ..Policy::default() }
}

fn is_alive(fixture: &Fixture, id: SandboxId) -> bool {
    fixture.instances().iter().any(|instance| instance.instance.sandbox == id && instance.alive)
}

#[tokio::test(start_paused = true)]
async fn a_claimed_instance_gets_the_maximum_life_of_its_request() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_with(pool_of(1)).await;
    let id = given(&fixture, &engine, long_life()).await;
    fixture.pass_ms(SECOND).await;
    // Only the instance itself is left.
    fixture.crash(engine);

    fixture.pass_ms(9 * 60 * MINUTE).await;
    let late = is_alive(&fixture, id);
    fixture.pass_ms(2 * 60 * MINUTE).await;

    assert_eq!((late, is_alive(&fixture, id)), (true, false));
}

#[tokio::test(start_paused = true)]
async fn a_claimed_instance_with_an_earlier_end_runs_nothing_before_its_end_is_set() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_with(pool_of(1)).await;
    let short = Policy { max_life_ms: 5 * MINUTE, ..Policy::default() };
    fixture.faults.next(Call::KeepAlive, fault(Fault::Fails));
    let id = given(&fixture, &engine, short).await;
    let execution = fixture.run(&engine, id, "true").await;
    fixture.pass_ms(100).await;
    let before = fixture.faults.calls(Call::Exec);

    let outcome = fixture.outcome(&engine, id, execution).await;

    assert_eq!((before, outcome), (0, Outcome::exited(0)));
    fixture.crash(engine);
    fixture.pass_ms(6 * MINUTE).await;
    assert!(!is_alive(&fixture, id));
}

#[tokio::test(start_paused = true)]
async fn a_quarantined_pooled_instance_does_not_block_requests_that_another_could_make_room_for() {
    let fixture = Fixture::new();
    let admission = AdmissionLimits { sandboxes: Some(3), ..AdmissionLimits::default() };
    let engine = fixture.start_engine_with(Config { admission, ..pool_of(9) }).await;
    let waiting = fixture.until_pool_has(2).await;
    (0..5).for_each(|_| fixture.faults.next(Call::Stop, fault(Fault::ObserveFails)));
    engine.stop(waiting[0], Cause::StoppedByUser, None, 0).await.unwrap();
    fixture.until(waiting[0], 10 * MINUTE, |it| matches!(it.lease, Lease::Quarantined { .. })).await;
    fixture.until_pool_has(1).await;

    let first = engine.create(CreateRequest::default()).await;
    let second = engine.create(CreateRequest::default()).await;

    assert!(first.is_ok() && second.is_ok(), "{first:?}, {second:?}");
}

#[tokio::test(start_paused = true)]
async fn a_crash_between_claim_and_extension_is_repaired_by_the_next_engine() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_with(pool_of(1)).await;
    fixture.faults.next(Call::KeepAlive, hangs());
    let id = given(&fixture, &engine, long_life()).await;
    fixture.crash(engine);

    let next = fixture.start_engine_slow_poll().await;
    let execution = fixture.run(&next, id, "true").await;
    let outcome = fixture.outcome(&next, id, execution).await;

    assert_eq!((outcome, fixture.sandbox(id).await.generation()), (Outcome::exited(0), Generation(1)));
    fixture.pass_ms(60 * MINUTE).await;
    assert!(is_alive(&fixture, id), "it ended at the pool's maximum life");
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_died_in_the_pool_is_replaced_for_its_claimant() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_with(pool_of(1)).await;
    let waiting = fixture.until_pool_has(1).await;
    fixture.world.kill_instance(instance_of(&fixture.sandbox(waiting[0]).await), true);

    let id = given(&fixture, &engine, Policy { launches: 1, ..Policy::default() }).await;
    fixture.until(id, MINUTE, |sandbox| sandbox.generation() == Generation(2)).await;
    fixture.wait_ready(&engine, id).await.unwrap();
    let execution = fixture.run(&engine, id, "true").await;

    assert_eq!(fixture.outcome(&engine, id, execution).await, Outcome::exited(0));
    assert!(!fixture.times(id, |fact| matches!(fact, Fact::StartFailed { .. })).await.is_empty());
    fixture.assert_sum().await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_cannot_be_extended_is_replaced_in_time() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_with(pool_of(1)).await;
    fixture.until_pool_has(1).await;
    fixture.faults.always(Call::KeepAlive, fault(Fault::Fails));

    let id = given(&fixture, &engine, Policy::default()).await;
    let cut_off = fixture.run(&engine, id, "hang").await;
    let outcome = fixture.outcome(&engine, id, cut_off).await;
    fixture.wait_ready(&engine, id).await.unwrap();

    assert_eq!((outcome.kind, outcome.cause), (OutcomeKind::Failed, Cause::ProviderError));
    let next = fixture.run(&engine, id, "true").await;
    assert_eq!(fixture.outcome(&engine, id, next).await, Outcome::exited(0));
    assert_eq!(fixture.sandbox(id).await.generation(), Generation(2));
}

#[tokio::test(start_paused = true)]
async fn old_or_unhealthy_pooled_instances_are_replaced() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_with(Config { pool_life_ms: 10 * MINUTE, ..pool_of(1) }).await;
    let first = fixture.until_pool_has(1).await;
    fixture.pass_ms(MINUTE).await;
    fixture.world.kill_instance(instance_of(&fixture.sandbox(first[0]).await), true);
    fixture.until(first[0], MINUTE, |sandbox| sandbox.pool_shape().is_none()).await;

    let second = fixture.until_pool_has(1).await;
    fixture.pass_ms(11 * MINUTE).await;
    let third = fixture.until_pool_has(1).await;

    assert!(first != second && second != third);
    let ended = fixture.times(second[0], |fact| *fact == Fact::Ended { cause: Cause::MaxLife }).await;
    assert_eq!(ended.len(), 1);
    let totals = fixture.store.totals().await.unwrap();
    assert_eq!((totals.created, totals.destroyed, totals.pooled), (0, 0, 1));
    drop(engine);
}

#[tokio::test(start_paused = true)]
async fn failed_pool_launches_are_retried_with_backoff() {
    let fixture = Fixture::new();
    fixture.faults.always(Call::Start, fault(Fault::Fails));
    let _engine = fixture.start_engine_with(pool_of(4)).await;

    fixture.pass_ms(20 * MINUTE).await;
    let tried = fixture.faults.calls(Call::Start);
    fixture.faults.clear();
    fixture.until_pool_has(4).await;

    // Two at a time, three attempts each, with a backoff of up to one minute.
    assert!(tried < 6 * (20 + 10), "{tried} launches in 20 minutes");
    fixture.assert_sum().await;
}

#[tokio::test(start_paused = true)]
async fn pooled_instances_of_a_dead_engine_are_claimed_through_the_next_one() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_with(pool_of(2)).await;
    let waiting = fixture.until_pool_has(2).await;
    fixture.crash(engine);

    let next = fixture.start_engine_with(pool_of(2)).await;
    fixture.pass_ms(5 * SECOND).await;
    let id = next.create(requesting()).await.unwrap();

    assert!(waiting.contains(&id));
    fixture.wait_ready(&next, id).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn pooled_instances_of_a_dead_engine_are_discarded_by_one_without_a_plan() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_with(pool_of(2)).await;
    fixture.until_pool_has(2).await;
    fixture.crash(engine);

    let _next = fixture.start_engine().await;
    fixture.pass_ms(MINUTE).await;

    assert_eq!(fixture.pooled().await, []);
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn an_engine_without_a_plan_leaves_the_pool_of_another_alone() {
    let fixture = Fixture::new();
    let _keeper = fixture.start_engine_with(pool_of(2)).await;
    let waiting = fixture.until_pool_has(2).await;

    let passer_by = fixture.start_engine().await;
    let id = passer_by.create(requesting()).await.unwrap();
    fixture.pass_ms(MINUTE).await;

    assert!(!waiting.contains(&id));
    assert_eq!(fixture.ready_in_pool().await, waiting);
}

#[tokio::test(start_paused = true)]
async fn a_claim_with_unknown_outcome_is_read_again_and_never_repeated() {
    for (how, written) in [(WriteFault::UnknownWritten, true), (WriteFault::UnknownNotWritten, false)] {
        let fixture = Fixture::new();
        let engine = fixture.start_engine_with(pool_of(1)).await;
        let waiting = fixture.until_pool_has(1).await;
        fixture.store.fail_next_writes(1, how);

        let answer = engine.create(requesting()).await;

        assert_eq!(answer.ok(), written.then_some(waiting[0]));
        assert_eq!(fixture.store.totals().await.unwrap().created, u64::from(written));
        fixture.assert_sum().await;
    }
}
