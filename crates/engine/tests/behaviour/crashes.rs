//! After a crash of an engine the next one finds its pending effects in the store and completes them.

use pinfold_engine::StopProgress;
use pinfold_lifecycle::{Cause, Fact, Generation, Outcome, Policy, State};
use pinfold_provider::fake::{Call, CallPlan};

use crate::fakes::{answered_after, halfway, hangs, slow};
use crate::fixture::{Fixture, MINUTE, SECOND};

#[tokio::test(start_paused = true)]
async fn a_launch_interrupted_by_a_crash_is_completed_with_one_instance() {
    let steps: [(CallPlan, u64); 4] = [
        // No instance, or only a marker: it is launched again.
        (slow(10 * SECOND), 2),
        (halfway(10 * SECOND), 2),
        // The instance is complete: it is probed and used.
        (answered_after(10 * SECOND), 1),
        (hangs(), 2),
    ];
    for (launch, generation) in steps {
        let fixture = Fixture::new();
        let engine = fixture.start_engine().await;
        fixture.faults.next(Call::Start, launch);
        let id = fixture.create(&engine, Policy::default()).await;
        fixture.pass_ms(SECOND).await;

        fixture.crash(engine);
        let next = fixture.start_engine().await;
        fixture.wait_ready(&next, id).await.unwrap();

        let sandbox = fixture.sandbox(id).await;
        assert_eq!((sandbox.generation(), sandbox.owner), (Generation(generation), next.node()));
        assert_eq!(fixture.instances().len(), 1);
        fixture.assert_sum().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_probe_interrupted_by_a_crash_is_repeated() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    fixture.faults.next(Call::Probe, hangs());
    let id = fixture.create(&engine, Policy::default()).await;
    fixture.pass_ms(SECOND).await;

    fixture.crash(engine);
    let next = fixture.start_engine().await;
    fixture.wait_ready(&next, id).await.unwrap();

    assert_eq!(fixture.sandbox(id).await.generation(), Generation(1));
    assert_eq!(fixture.faults.calls(Call::Probe), 2);
}

#[tokio::test(start_paused = true)]
async fn an_execution_interrupted_by_a_crash_at_its_start_runs_once() {
    for start in [slow(10 * SECOND), answered_after(10 * SECOND)] {
        let fixture = Fixture::new();
        let engine = fixture.start_engine().await;
        let id = fixture.ready(&engine, Policy::default()).await;
        fixture.faults.next(Call::Exec, start);
        let execution = fixture.run(&engine, id, "sleep 20").await;
        fixture.pass_ms(SECOND).await;

        fixture.crash(engine);
        let next = fixture.start_engine().await;
        let outcome = fixture.outcome(&next, id, execution).await;

        assert_eq!(outcome, Outcome::exited(0));
        assert!(fixture.now() <= 22 * SECOND, "{}", fixture.now());
        assert_eq!(fixture.sandbox(id).await.generation(), Generation(1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_running_execution_continues_through_a_crash_and_its_outcome_is_kept() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    let ends_soon = fixture.run(&engine, id, "work 2000 7").await;
    let goes_on = fixture.run(&engine, id, "sleep 60").await;
    fixture.pass_ms(SECOND).await;

    fixture.crash(engine);
    fixture.pass_ms(10 * SECOND).await;
    let next = fixture.start_engine().await;
    let first = fixture.outcome(&next, id, ends_soon).await;
    let state = fixture.state(id).await;
    let second = fixture.outcome(&next, id, goes_on).await;

    assert_eq!((first, second), (Outcome::exited(7), Outcome::exited(0)));
    assert_eq!(state, State::Running);
    assert_eq!(fixture.now(), MINUTE);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_interrupted_by_a_crash_is_completed() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    let execution = fixture.run(&engine, id, "hang").await;
    fixture.pass_ms(SECOND).await;
    fixture.faults.next(Call::Kill, hangs());
    engine.cancel(id, execution).await.unwrap();
    fixture.pass_ms(SECOND).await;

    fixture.crash(engine);
    let next = fixture.start_engine().await;
    let outcome = fixture.outcome(&next, id, execution).await;

    assert_eq!(outcome.cause, Cause::Cancelled);
    assert_eq!(fixture.running(), 0);
    assert_eq!(fixture.state(id).await, State::Ready);
}

#[tokio::test(start_paused = true)]
async fn a_stop_interrupted_by_a_crash_is_completed_with_its_cause() {
    for stop in [slow(10 * SECOND), halfway(4 * SECOND), answered_after(10 * SECOND)] {
        let fixture = Fixture::new();
        let engine = fixture.start_engine().await;
        let id = fixture.ready(&engine, Policy::default()).await;
        fixture.faults.next(Call::Stop, stop);
        fixture.request_stop(&engine, id).await;
        fixture.pass_ms(SECOND).await;

        fixture.crash(engine);
        let _next = fixture.start_engine().await;
        fixture.until(id, 5 * SECOND, |sandbox| sandbox.is_settled()).await;

        let ended = Fact::Ended { cause: Cause::StoppedByUser };
        assert_eq!(fixture.times(id, |fact| *fact == ended).await.len(), 1);
        fixture.assert_nothing_is_left().await;
    }
}

#[tokio::test(start_paused = true)]
async fn effects_committed_for_a_dead_engine_by_another_are_adopted_too() {
    let fixture = Fixture::new();
    let (owner, neighbour) = (fixture.start_engine().await, fixture.start_engine().await);
    let id = fixture.ready(&owner, Policy::default()).await;
    fixture.faults.next(Call::Stop, hangs());
    fixture.request_stop(&neighbour, id).await;
    fixture.pass_ms(SECOND).await;

    fixture.crash(neighbour);
    let stop = fixture.stop(&owner, id).await;

    assert!(matches!(stop, StopProgress::Gone { cause: Cause::StoppedByUser, .. }));
    assert!(fixture.now() <= 4 * SECOND, "{}", fixture.now());
}

#[tokio::test(start_paused = true)]
async fn a_leased_launch_not_started_is_started_by_the_next_engine() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;

    let id = fixture.create(&engine, Policy::default()).await;
    fixture.crash(engine);
    let begun = fixture.faults.calls(Call::Start);
    let next = fixture.start_engine().await;

    assert_eq!(begun, 0);
    assert_eq!(fixture.wait_ready(&next, id).await, Ok(()));
    assert_eq!(fixture.instances().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn three_engines_that_crash_one_after_the_other_lose_nothing() {
    let fixture = Fixture::new();
    let mut engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    let execution = fixture.run(&engine, id, "sleep 30").await;

    for _ in 0..3 {
        fixture.pass_ms(3 * SECOND).await;
        let next = fixture.start_engine().await;
        fixture.crash(std::mem::replace(&mut engine, next));
    }
    let outcome = fixture.outcome(&engine, id, execution).await;

    assert_eq!(outcome, Outcome::exited(0));
    assert_eq!(fixture.now(), 30 * SECOND);
    assert_eq!(fixture.sandbox(id).await.owner, engine.node());
}
