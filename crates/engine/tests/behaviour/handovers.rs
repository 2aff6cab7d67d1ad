//! Engines that shut down or are suspended: other engines take over without delay.

use std::sync::Arc;

use pinfold_engine::{Clock, OnExit};
use pinfold_lifecycle::{
    AdmissionLimits, Cause, Context, ExecutionLimits, Fact, Generation, Life, Outcome, OutcomeKind, Policy,
    SandboxId, State, create,
};
use pinfold_provider::fake::{Call, Fault};
use pinfold_store::{AdmissionTerms, NewSandbox, Store};

use crate::fakes::{fault, slow};
use crate::fixture::{Fixture, MINUTE, SECOND};

#[tokio::test(start_paused = true)]
async fn a_shutdown_that_keeps_hands_live_sandboxes_and_their_executions_to_the_next_engine() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    let execution = fixture.run(&engine, id, "sleep 30").await;
    fixture.pass_ms(SECOND).await;

    engine.shutdown(OnExit::Keep, MINUTE).await.unwrap();
    let kept = fixture.running();
    let next = fixture.start_engine().await;
    let adopted = fixture.until(id, SECOND, |sandbox| sandbox.owner == next.node()).await;
    let outcome = fixture.outcome(&next, id, execution).await;

    assert_eq!(kept, 1);
    assert_eq!(adopted.generation(), Generation(1));
    assert_eq!(outcome, Outcome::exited(0));
    assert_eq!(fixture.now(), 30 * SECOND);
    assert_eq!(fixture.state(id).await, State::Ready);
}

#[tokio::test(start_paused = true)]
async fn sandboxes_of_an_unregistered_engine_are_adopted_by_a_running_one() {
    let fixture = Fixture::new();
    let (leaving, staying) = (fixture.start_engine().await, fixture.start_engine().await);
    let id = fixture.ready(&leaving, Policy::default()).await;

    leaving.shutdown(OnExit::Keep, MINUTE).await.unwrap();
    fixture.until(id, 3 * SECOND, |sandbox| sandbox.owner == staying.node()).await;

    let nodes = fixture.store.nodes().await.unwrap();
    assert_eq!(nodes.len(), 1);
    assert_eq!(nodes[0].node.id, staying.node());
}

#[tokio::test(start_paused = true)]
async fn writes_of_an_engine_after_it_unregistered_are_adopted() {
    let fixture = Fixture::new();
    let leaving = fixture.start_engine().await;
    leaving.shutdown(OnExit::Keep, 0).await.unwrap();
    let (id, policy) = (SandboxId(7), Arc::new(Policy::default()));
    let late = Context { now: fixture.clock.now(), node: leaving.node(), policy: &policy };
    let transition = create(id, late);
    let new = NewSandbox {
        transition,
        spec: Arc::default(),
        policy,
        key: None,
        commands: Vec::new(),
        admission: AdmissionTerms::default(),
    };
    fixture.store.create(new, AdmissionLimits::default()).await.unwrap();

    let next = fixture.start_engine().await;
    fixture.until(id, SECOND, |sandbox| sandbox.owner == next.node()).await;

    assert_eq!(fixture.wait_ready(&next, id).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_that_stops_proves_all_own_sandboxes_gone() {
    let fixture = Fixture::new();
    let (engine, other) = (fixture.start_engine().await, fixture.start_engine().await);
    let own =
        [fixture.ready(&engine, Policy::default()).await, fixture.ready(&engine, Policy::default()).await];
    let of_the_other = fixture.ready(&other, Policy::default()).await;
    let execution = fixture.run(&engine, own[0], "hang").await;
    fixture.faults.next(Call::Stop, fault(Fault::ObserveFails));

    engine.shutdown(OnExit::Stop, MINUTE).await.unwrap();

    for id in own {
        let life = fixture.sandbox(id).await.life;
        assert!(matches!(life, Life::Ended { cause: Cause::Shutdown, .. }), "{life:?}");
    }
    assert_eq!(fixture.outcome(&other, own[0], execution).await.cause, Cause::Shutdown);
    assert_eq!(fixture.instances().len(), 1);
    assert_eq!(fixture.state(of_the_other).await, State::Ready);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_that_stops_also_ends_sandboxes_created_meanwhile() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    fixture.ready(&engine, Policy::default()).await;
    fixture.faults.next(Call::Stop, slow(5 * SECOND));

    let late = async {
        fixture.pass_ms(SECOND).await;
        fixture.ready(&engine, Policy::default()).await
    };
    let (ended, _) = tokio::join!(engine.shutdown(OnExit::Stop, MINUTE), late);

    assert_eq!(ended.unwrap(), []);
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_with_a_failed_stop_reports_what_is_left_for_the_next_engine() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    fixture.faults.next(Call::Stop, fault(Fault::ObserveFails));

    let left = engine.shutdown(OnExit::Stop, 2 * SECOND).await.unwrap();
    let left_at = fixture.now();
    let _next = fixture.start_engine().await;
    fixture.until(id, 10 * SECOND, |sandbox| sandbox.is_settled()).await;

    assert_eq!((left, left_at), (vec![id], 2 * SECOND));
    assert_eq!(fixture.times(id, |fact| *fact == Fact::Ended { cause: Cause::Shutdown }).await, [5 * SECOND]);
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_suspended_owner_delays_no_deadline() {
    let fixture = Fixture::new();
    let (owner, its_clock) = fixture.start_pausable_engine().await;
    let other = fixture.start_engine().await;
    let id = fixture.ready(&owner, Policy::default()).await;
    let limits = ExecutionLimits { timeout_ms: Some(10 * SECOND), inactivity_ms: None };
    let execution = fixture.run_within(&owner, id, "hang", limits).await;
    fixture.pass_ms(SECOND).await;

    its_clock.pause();
    let outcome = fixture.outcome(&other, id, execution).await;
    let ended_at = fixture.now();

    assert_eq!((outcome.kind, outcome.cause), (OutcomeKind::TimedOut, Cause::TimeLimit));
    // The owner's slack of one second, and one poll.
    assert!((11 * SECOND..=11 * SECOND + 200).contains(&ended_at), "{ended_at}");
    assert_eq!(fixture.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_owner_resumed_late_changes_nothing() {
    let fixture = Fixture::new();
    let (owner, its_clock) = fixture.start_pausable_engine().await;
    let other = fixture.start_engine().await;
    let short_lived = Policy { max_life_ms: 20 * SECOND, ..Policy::default() };
    let id = fixture.ready(&owner, short_lived).await;
    let execution = fixture.run(&owner, id, "hang").await;
    fixture.pass_ms(SECOND).await;

    its_clock.pause();
    fixture.until(id, MINUTE, |sandbox| sandbox.is_settled()).await;
    let ended = fixture.sandbox(id).await;
    its_clock.go_on();
    fixture.pass_ms(MINUTE).await;

    assert_eq!(fixture.sandbox(id).await, ended);
    assert_eq!(fixture.outcome(&other, id, execution).await.kind, OutcomeKind::TimedOut);
    fixture.assert_nothing_is_left().await;
}

/// On another host a suspended process is taken for dead; when it resumes, its sandboxes belong to another
/// node.
#[tokio::test(start_paused = true)]
async fn an_owner_taken_for_dead_has_lost_its_sandboxes_when_resumed() {
    let fixture = Fixture::new();
    let (owner, its_clock) = fixture.start_pausable_engine().await;
    let other = fixture.start_engine().await;
    let id = fixture.ready(&owner, Policy::default()).await;
    let execution = fixture.run(&owner, id, "sleep 30").await;
    fixture.pass_ms(SECOND).await;

    its_clock.pause();
    fixture.liveness.declare_dead(owner.node());
    fixture.until(id, 5 * SECOND, |sandbox| sandbox.owner == other.node()).await;
    its_clock.go_on();
    fixture.pass_ms(SECOND).await;
    let outcome = fixture.outcome(&owner, id, execution).await;

    assert_eq!(outcome, Outcome::exited(0));
    assert_eq!(fixture.sandbox(id).await.owner, other.node());
    assert_eq!(fixture.instances().len(), 1);
    let ended = |fact: &Fact| matches!(fact, Fact::ExecutionEnded { .. });
    assert_eq!(fixture.times(id, ended).await, [30 * SECOND]);
}
