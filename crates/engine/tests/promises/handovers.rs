//! Engines that leave in order, and engines that are stopped in their tracks: nobody else waits for them.

use std::sync::Arc;

use pinfold_engine::{Clock, OnExit};
use pinfold_lifecycle::{
    AdmissionLimits, Cause, Context, ExecutionLimits, Fact, Generation, Life, Outcome, OutcomeKind, Policy,
    SandboxId, State, create,
};
use pinfold_provider::fake::{Call, Fault};
use pinfold_store::{Bid, NewSandbox, Store};

use crate::seams::{fault, slow};
use crate::stage::{MINUTE, SECOND, Stage};

#[tokio::test(start_paused = true)]
async fn a_shutdown_that_keeps_hands_live_sandboxes_and_their_executions_to_the_next_engine() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    let execution = stage.run(&engine, id, "sleep 30").await;
    stage.pass_ms(SECOND).await;

    engine.shutdown(OnExit::Keep, MINUTE).await.unwrap();
    let kept = stage.running();
    let next = stage.begin().await;
    let adopted = stage.until(id, SECOND, |sandbox| sandbox.owner == next.node()).await;
    let outcome = stage.outcome(&next, id, execution).await;

    assert_eq!(kept, 1);
    assert_eq!(adopted.generation(), Generation(1));
    assert_eq!(outcome, Outcome::exited(0));
    assert_eq!(stage.now(), 30 * SECOND);
    assert_eq!(stage.state(id).await, State::Ready);
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_has_said_good_bye_is_taken_over_by_one_that_is_there_already() {
    let stage = Stage::new();
    let (leaving, staying) = (stage.begin().await, stage.begin().await);
    let id = stage.ready(&leaving, Policy::default()).await;

    leaving.shutdown(OnExit::Keep, MINUTE).await.unwrap();
    stage.until(id, 3 * SECOND, |sandbox| sandbox.owner == staying.node()).await;

    let nodes = stage.store.nodes().await.unwrap();
    assert_eq!(nodes.len(), 1);
    assert_eq!(nodes[0].node.id, staying.node());
}

#[tokio::test(start_paused = true)]
async fn what_an_engine_writes_after_its_good_bye_is_adopted() {
    let stage = Stage::new();
    let leaving = stage.begin().await;
    leaving.shutdown(OnExit::Keep, 0).await.unwrap();
    let (id, policy) = (SandboxId(7), Arc::new(Policy::default()));
    let late = Context { now: stage.clock.now(), node: leaving.node(), policy: &policy };
    let transition = create(id, late);
    let new = NewSandbox {
        transition,
        spec: Arc::default(),
        policy,
        key: None,
        commands: Vec::new(),
        bid: Bid::default(),
    };
    stage.store.create(new, AdmissionLimits::default()).await.unwrap();

    let next = stage.begin().await;
    stage.until(id, SECOND, |sandbox| sandbox.owner == next.node()).await;

    assert_eq!(stage.wait_ready(&next, id).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_that_stops_proves_everything_of_its_own_gone() {
    let stage = Stage::new();
    let (engine, other) = (stage.begin().await, stage.begin().await);
    let own = [stage.ready(&engine, Policy::default()).await, stage.ready(&engine, Policy::default()).await];
    let of_the_other = stage.ready(&other, Policy::default()).await;
    let execution = stage.run(&engine, own[0], "hang").await;
    stage.weather.next(Call::Stop, fault(Fault::LookFails));

    engine.shutdown(OnExit::Stop, MINUTE).await.unwrap();

    for id in own {
        let life = stage.sandbox(id).await.life;
        assert!(matches!(life, Life::Ended { cause: Cause::Shutdown, .. }), "{life:?}");
    }
    assert_eq!(stage.outcome(&other, own[0], execution).await.cause, Cause::Shutdown);
    assert_eq!(stage.bodies().len(), 1);
    assert_eq!(stage.state(of_the_other).await, State::Ready);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_that_stops_also_ends_what_is_asked_for_meanwhile() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    stage.ready(&engine, Policy::default()).await;
    stage.weather.next(Call::Stop, slow(5 * SECOND));

    let late = async {
        stage.pass_ms(SECOND).await;
        stage.ready(&engine, Policy::default()).await
    };
    let (ended, _) = tokio::join!(engine.shutdown(OnExit::Stop, MINUTE), late);

    assert_eq!(ended.unwrap(), []);
    stage.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_whose_stop_failed_says_what_is_left_and_the_next_engine_ends_it() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    stage.weather.next(Call::Stop, fault(Fault::LookFails));

    let left = engine.shutdown(OnExit::Stop, 2 * SECOND).await.unwrap();
    let left_at = stage.now();
    let _next = stage.begin().await;
    stage.until(id, 10 * SECOND, |sandbox| sandbox.is_settled()).await;

    assert_eq!((left, left_at), (vec![id], 2 * SECOND));
    assert_eq!(stage.times(id, |fact| *fact == Fact::Ended { cause: Cause::Shutdown }).await, [5 * SECOND]);
    stage.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_is_stopped_in_its_tracks_holds_up_no_deadline() {
    let stage = Stage::new();
    let (owner, its_clock) = stage.begin_pausable().await;
    let other = stage.begin().await;
    let id = stage.ready(&owner, Policy::default()).await;
    let limits = ExecutionLimits { timeout_ms: Some(10 * SECOND), inactivity_ms: None };
    let execution = stage.run_within(&owner, id, "hang", limits).await;
    stage.pass_ms(SECOND).await;

    its_clock.pause();
    let outcome = stage.outcome(&other, id, execution).await;
    let ended_at = stage.now();

    assert_eq!((outcome.kind, outcome.cause), (OutcomeKind::TimedOut, Cause::TimeLimit));
    // The owner's own second, and one poll.
    assert!((11 * SECOND..=11 * SECOND + 200).contains(&ended_at), "{ended_at}");
    assert_eq!(stage.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_wakes_up_late_changes_nothing() {
    let stage = Stage::new();
    let (owner, its_clock) = stage.begin_pausable().await;
    let other = stage.begin().await;
    let short_lived = Policy { max_life_ms: 20 * SECOND, ..Policy::default() };
    let id = stage.ready(&owner, short_lived).await;
    let execution = stage.run(&owner, id, "hang").await;
    stage.pass_ms(SECOND).await;

    its_clock.pause();
    stage.until(id, MINUTE, |sandbox| sandbox.is_settled()).await;
    let ended = stage.sandbox(id).await;
    its_clock.go_on();
    stage.pass_ms(MINUTE).await;

    assert_eq!(stage.sandbox(id).await, ended);
    assert_eq!(stage.outcome(&other, id, execution).await.kind, OutcomeKind::TimedOut);
    stage.assert_nothing_is_left().await;
}

/// On another host a paused process is taken for dead: it then finds its sandboxes in other hands.
#[tokio::test(start_paused = true)]
async fn an_owner_that_was_taken_for_dead_has_lost_its_sandboxes_when_it_wakes_up() {
    let stage = Stage::new();
    let (owner, its_clock) = stage.begin_pausable().await;
    let other = stage.begin().await;
    let id = stage.ready(&owner, Policy::default()).await;
    let execution = stage.run(&owner, id, "sleep 30").await;
    stage.pass_ms(SECOND).await;

    its_clock.pause();
    stage.census.declare_dead(owner.node());
    stage.until(id, 5 * SECOND, |sandbox| sandbox.owner == other.node()).await;
    its_clock.go_on();
    stage.pass_ms(SECOND).await;
    let outcome = stage.outcome(&owner, id, execution).await;

    assert_eq!(outcome, Outcome::exited(0));
    assert_eq!(stage.sandbox(id).await.owner, other.node());
    assert_eq!(stage.bodies().len(), 1);
    let ended = |fact: &Fact| matches!(fact, Fact::ExecutionEnded { .. });
    assert_eq!(stage.times(id, ended).await, [30 * SECOND]);
}
