//! The warm pool when something goes wrong: bodies that die, grow old or cannot be told their end, launches that
//! fail, engines that crash at the worst moment.

use pinfold_engine::{Config, CreateAsk, Engine};
use pinfold_lifecycle::{
    AdmissionLimits, Cause, Fact, Generation, Lease, Outcome, OutcomeKind, Policy, SandboxId,
};
use pinfold_provider::fake::{Call, Fault};
use pinfold_store::{Fault as WriteFault, Store};

use crate::pool::{asking, pool_of};
use crate::seams::{fault, hangs};
use crate::stage::{MINUTE, SECOND, Stage, body_of};

async fn given(stage: &Stage, engine: &Engine, policy: Policy) -> SandboxId {
    let waiting = stage.until_pool_has(1).await;
    let id = engine.create(CreateAsk { policy, ..asking() }).await.unwrap();
    assert_eq!(waiting, [id]);
    id
}

fn long_life() -> Policy {
    Policy { max_life_ms: 10 * 60 * MINUTE, idle_ms: None, ..Policy::default() }
}

fn is_alive(stage: &Stage, id: SandboxId) -> bool {
    stage.bodies().iter().any(|body| body.body.sandbox == id && body.alive)
}

#[tokio::test(start_paused = true)]
async fn a_body_from_the_pool_lives_as_long_as_its_user_may() {
    let stage = Stage::new();
    let engine = stage.begin_with(pool_of(1)).await;
    let id = given(&stage, &engine, long_life()).await;
    stage.pass_ms(SECOND).await;
    // Nobody is left but the body itself.
    stage.crash(engine);

    stage.pass_ms(9 * 60 * MINUTE).await;
    let late = is_alive(&stage, id);
    stage.pass_ms(2 * 60 * MINUTE).await;

    assert_eq!((late, is_alive(&stage, id)), (true, false));
}

#[tokio::test(start_paused = true)]
async fn a_body_from_the_pool_that_must_end_sooner_does_and_runs_nothing_before_it_knows() {
    let stage = Stage::new();
    let engine = stage.begin_with(pool_of(1)).await;
    let short = Policy { max_life_ms: 5 * MINUTE, ..Policy::default() };
    stage.weather.next(Call::KeepAlive, fault(Fault::Fails));
    let id = given(&stage, &engine, short).await;
    let execution = stage.run(&engine, id, "true").await;
    stage.pass_ms(100).await;
    let before = stage.weather.calls(Call::Exec);

    let outcome = stage.outcome(&engine, id, execution).await;

    assert_eq!((before, outcome), (0, Outcome::exited(0)));
    stage.crash(engine);
    stage.pass_ms(6 * MINUTE).await;
    assert!(!is_alive(&stage, id));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_not_proven_gone_keeps_nobody_out_for_whom_another_would_give_way() {
    let stage = Stage::new();
    let admission = AdmissionLimits { sandboxes: Some(3), ..AdmissionLimits::default() };
    let engine = stage.begin_with(Config { admission, ..pool_of(9) }).await;
    let waiting = stage.until_pool_has(2).await;
    (0..5).for_each(|_| stage.weather.next(Call::Stop, fault(Fault::LookFails)));
    engine.stop(waiting[0], Cause::StoppedByUser, false, 0).await.unwrap();
    stage.until(waiting[0], 10 * MINUTE, |it| matches!(it.lease, Lease::Quarantined { .. })).await;
    stage.until_pool_has(1).await;

    let first = engine.create(CreateAsk::default()).await;
    let second = engine.create(CreateAsk::default()).await;

    assert!(first.is_ok() && second.is_ok(), "{first:?}, {second:?}");
}

#[tokio::test(start_paused = true)]
async fn a_crash_between_the_claim_and_the_bodys_new_end_is_made_good_by_the_next_engine() {
    let stage = Stage::new();
    let engine = stage.begin_with(pool_of(1)).await;
    stage.weather.next(Call::KeepAlive, hangs());
    let id = given(&stage, &engine, long_life()).await;
    stage.crash(engine);

    let next = stage.begin_patient().await;
    let execution = stage.run(&next, id, "true").await;
    let outcome = stage.outcome(&next, id, execution).await;

    assert_eq!((outcome, stage.sandbox(id).await.generation()), (Outcome::exited(0), Generation(1)));
    stage.pass_ms(60 * MINUTE).await;
    assert!(is_alive(&stage, id), "it ended as a body in the pool would");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_died_in_the_pool_is_replaced_for_whoever_was_given_it() {
    let stage = Stage::new();
    let engine = stage.begin_with(pool_of(1)).await;
    let waiting = stage.until_pool_has(1).await;
    stage.world.kill_body(body_of(&stage.sandbox(waiting[0]).await), true);

    let id = given(&stage, &engine, Policy { launches: 1, ..Policy::default() }).await;
    stage.until(id, MINUTE, |sandbox| sandbox.generation() == Generation(2)).await;
    stage.wait_ready(&engine, id).await.unwrap();
    let execution = stage.run(&engine, id, "true").await;

    assert_eq!(stage.outcome(&engine, id, execution).await, Outcome::exited(0));
    assert!(!stage.times(id, |fact| matches!(fact, Fact::StartFailed { .. })).await.is_empty());
    stage.assert_sum().await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_cannot_be_told_its_end_is_replaced_in_time() {
    let stage = Stage::new();
    let engine = stage.begin_with(pool_of(1)).await;
    stage.until_pool_has(1).await;
    stage.weather.always(Call::KeepAlive, fault(Fault::Fails));

    let id = given(&stage, &engine, Policy::default()).await;
    let cut_off = stage.run(&engine, id, "hang").await;
    let outcome = stage.outcome(&engine, id, cut_off).await;
    stage.wait_ready(&engine, id).await.unwrap();

    assert_eq!((outcome.kind, outcome.cause), (OutcomeKind::Failed, Cause::ProviderError));
    let next = stage.run(&engine, id, "true").await;
    assert_eq!(stage.outcome(&engine, id, next).await, Outcome::exited(0));
    assert_eq!(stage.sandbox(id).await.generation(), Generation(2));
}

#[tokio::test(start_paused = true)]
async fn what_grows_old_or_unhealthy_in_the_pool_is_replaced() {
    let stage = Stage::new();
    let engine = stage.begin_with(Config { pool_life_ms: 10 * MINUTE, ..pool_of(1) }).await;
    let first = stage.until_pool_has(1).await;
    stage.pass_ms(MINUTE).await;
    stage.world.kill_body(body_of(&stage.sandbox(first[0]).await), true);
    stage.until(first[0], MINUTE, |sandbox| sandbox.waits_in_pool_of().is_none()).await;

    let second = stage.until_pool_has(1).await;
    stage.pass_ms(11 * MINUTE).await;
    let third = stage.until_pool_has(1).await;

    assert!(first != second && second != third);
    let ended = stage.times(second[0], |fact| *fact == Fact::Ended { cause: Cause::MaxLife }).await;
    assert_eq!(ended.len(), 1);
    let totals = stage.store.totals().await.unwrap();
    assert_eq!((totals.created, totals.destroyed, totals.pooled), (0, 0, 1));
    drop(engine);
}

#[tokio::test(start_paused = true)]
async fn launches_that_fail_are_tried_ever_more_seldom() {
    let stage = Stage::new();
    stage.weather.always(Call::Start, fault(Fault::Fails));
    let _engine = stage.begin_with(pool_of(4)).await;

    stage.pass_ms(20 * MINUTE).await;
    let tried = stage.weather.calls(Call::Start);
    stage.weather.clear_up();
    stage.until_pool_has(4).await;

    // Two at a time, three launches each, and at last a minute between them.
    assert!(tried < 6 * (20 + 10), "{tried} launches in 20 minutes");
    stage.assert_sum().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_engine_kept_ready_is_given_out_by_the_next_one() {
    let stage = Stage::new();
    let engine = stage.begin_with(pool_of(2)).await;
    let waiting = stage.until_pool_has(2).await;
    stage.crash(engine);

    let next = stage.begin_with(pool_of(2)).await;
    stage.pass_ms(5 * SECOND).await;
    let id = next.create(asking()).await.unwrap();

    assert!(waiting.contains(&id));
    stage.wait_ready(&next, id).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_engine_kept_ready_is_ended_by_one_that_has_no_use_for_it() {
    let stage = Stage::new();
    let engine = stage.begin_with(pool_of(2)).await;
    stage.until_pool_has(2).await;
    stage.crash(engine);

    let _next = stage.begin().await;
    stage.pass_ms(MINUTE).await;

    assert_eq!(stage.pooled().await, []);
    stage.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn an_engine_without_a_plan_leaves_the_pool_of_another_alone() {
    let stage = Stage::new();
    let _keeper = stage.begin_with(pool_of(2)).await;
    let waiting = stage.until_pool_has(2).await;

    let passer_by = stage.begin().await;
    let id = passer_by.create(asking()).await.unwrap();
    stage.pass_ms(MINUTE).await;

    assert!(!waiting.contains(&id));
    assert_eq!(stage.ready_in_pool().await, waiting);
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_outcome_is_unclear_is_read_again_and_never_made_twice() {
    for (how, written) in [(WriteFault::UnclearWritten, true), (WriteFault::UnclearNotWritten, false)] {
        let stage = Stage::new();
        let engine = stage.begin_with(pool_of(1)).await;
        let waiting = stage.until_pool_has(1).await;
        stage.store.fail_next_writes(1, how);

        let answer = engine.create(asking()).await;

        assert_eq!(answer.ok(), written.then_some(waiting[0]));
        assert_eq!(stage.store.totals().await.unwrap().created, u64::from(written));
        stage.assert_sum().await;
    }
}
