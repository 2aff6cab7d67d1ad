//! An engine that is gone from one moment to the next: what it was doing is found in the store and finished.

use pinfold_engine::Stop;
use pinfold_lifecycle::{Cause, Fact, Generation, Outcome, Policy, State};
use pinfold_provider::fake::{Call, Forecast};

use crate::seams::{answered_after, halfway, hangs, slow};
use crate::stage::{MINUTE, SECOND, Stage};

#[tokio::test(start_paused = true)]
async fn a_launch_that_a_crash_interrupts_is_finished_by_the_next_engine_with_one_body() {
    let steps: [(Forecast, u64); 4] = [
        // Nothing was made, or only a mark: it is made anew.
        (slow(10 * SECOND), 2),
        (halfway(10 * SECOND), 2),
        // The body is there and whole: it is proven, and used.
        (answered_after(10 * SECOND), 1),
        (hangs(), 2),
    ];
    for (launch, generation) in steps {
        let stage = Stage::new();
        let engine = stage.begin().await;
        stage.weather.next(Call::Start, launch);
        let id = stage.create(&engine, Policy::default()).await;
        stage.pass_ms(SECOND).await;

        stage.crash(engine);
        let next = stage.begin().await;
        stage.wait_ready(&next, id).await.unwrap();

        let sandbox = stage.sandbox(id).await;
        assert_eq!((sandbox.generation(), sandbox.owner), (Generation(generation), next.node()));
        assert_eq!(stage.bodies().len(), 1);
        stage.assert_sum().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_a_crash_interrupts_is_asked_again() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    stage.weather.next(Call::Probe, hangs());
    let id = stage.create(&engine, Policy::default()).await;
    stage.pass_ms(SECOND).await;

    stage.crash(engine);
    let next = stage.begin().await;
    stage.wait_ready(&next, id).await.unwrap();

    assert_eq!(stage.sandbox(id).await.generation(), Generation(1));
    assert_eq!(stage.weather.calls(Call::Probe), 2);
}

#[tokio::test(start_paused = true)]
async fn an_execution_that_a_crash_interrupts_while_it_starts_runs_once() {
    for start in [slow(10 * SECOND), answered_after(10 * SECOND)] {
        let stage = Stage::new();
        let engine = stage.begin().await;
        let id = stage.ready(&engine, Policy::default()).await;
        stage.weather.next(Call::Exec, start);
        let execution = stage.run(&engine, id, "sleep 20").await;
        stage.pass_ms(SECOND).await;

        stage.crash(engine);
        let next = stage.begin().await;
        let outcome = stage.outcome(&next, id, execution).await;

        assert_eq!(outcome, Outcome::exited(0));
        assert!(stage.now() <= 22 * SECOND, "{}", stage.now());
        assert_eq!(stage.sandbox(id).await.generation(), Generation(1));
    }
}

#[tokio::test(start_paused = true)]
async fn an_execution_that_runs_goes_on_through_a_crash_and_its_outcome_is_kept() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    let ends_soon = stage.run(&engine, id, "work 2000 7").await;
    let goes_on = stage.run(&engine, id, "sleep 60").await;
    stage.pass_ms(SECOND).await;

    stage.crash(engine);
    stage.pass_ms(10 * SECOND).await;
    let next = stage.begin().await;
    let first = stage.outcome(&next, id, ends_soon).await;
    let state = stage.state(id).await;
    let second = stage.outcome(&next, id, goes_on).await;

    assert_eq!((first, second), (Outcome::exited(7), Outcome::exited(0)));
    assert_eq!(state, State::Running);
    assert_eq!(stage.now(), MINUTE);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_a_crash_interrupts_is_finished() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    let execution = stage.run(&engine, id, "hang").await;
    stage.pass_ms(SECOND).await;
    stage.weather.next(Call::Kill, hangs());
    engine.cancel(id, execution).await.unwrap();
    stage.pass_ms(SECOND).await;

    stage.crash(engine);
    let next = stage.begin().await;
    let outcome = stage.outcome(&next, id, execution).await;

    assert_eq!(outcome.cause, Cause::Cancelled);
    assert_eq!(stage.running(), 0);
    assert_eq!(stage.state(id).await, State::Ready);
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_a_crash_interrupts_is_finished_and_keeps_its_cause() {
    for stop in [slow(10 * SECOND), halfway(4 * SECOND), answered_after(10 * SECOND)] {
        let stage = Stage::new();
        let engine = stage.begin().await;
        let id = stage.ready(&engine, Policy::default()).await;
        stage.weather.next(Call::Stop, stop);
        stage.ask_to_stop(&engine, id).await;
        stage.pass_ms(SECOND).await;

        stage.crash(engine);
        let _next = stage.begin().await;
        stage.until(id, 5 * SECOND, |sandbox| sandbox.is_settled()).await;

        let ended = Fact::Ended { cause: Cause::StoppedByUser };
        assert_eq!(stage.times(id, |fact| *fact == ended).await.len(), 1);
        stage.assert_nothing_is_left().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_asked_of_a_dead_engine_by_its_neighbour_is_adopted_too() {
    let stage = Stage::new();
    let (owner, neighbour) = (stage.begin().await, stage.begin().await);
    let id = stage.ready(&owner, Policy::default()).await;
    stage.weather.next(Call::Stop, hangs());
    stage.ask_to_stop(&neighbour, id).await;
    stage.pass_ms(SECOND).await;

    stage.crash(neighbour);
    let stop = stage.stop(&owner, id).await;

    assert!(matches!(stop, Stop::Gone { cause: Cause::StoppedByUser, .. }));
    assert!(stage.now() <= 4 * SECOND, "{}", stage.now());
}

#[tokio::test(start_paused = true)]
async fn a_launch_that_was_leased_and_not_begun_is_begun_by_the_next_engine() {
    let stage = Stage::new();
    let engine = stage.begin().await;

    let id = stage.create(&engine, Policy::default()).await;
    stage.crash(engine);
    let begun = stage.weather.calls(Call::Start);
    let next = stage.begin().await;

    assert_eq!(begun, 0);
    assert_eq!(stage.wait_ready(&next, id).await, Ok(()));
    assert_eq!(stage.bodies().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn three_engines_that_crash_one_after_the_other_lose_nothing() {
    let stage = Stage::new();
    let mut engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    let execution = stage.run(&engine, id, "sleep 30").await;

    for _ in 0..3 {
        stage.pass_ms(3 * SECOND).await;
        let next = stage.begin().await;
        stage.crash(std::mem::replace(&mut engine, next));
    }
    let outcome = stage.outcome(&engine, id, execution).await;

    assert_eq!(outcome, Outcome::exited(0));
    assert_eq!(stage.now(), 30 * SECOND);
    assert_eq!(stage.sandbox(id).await.owner, engine.node());
}
