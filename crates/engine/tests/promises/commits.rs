//! Facts that come together are written together, in their order, and a crash before that loses nothing.

use pinfold_engine::{ApplyError, CreateAsk, RunAsk, RunError, Stop};
use pinfold_lifecycle::{
    ExecutionKind, ExecutionLimits, Fact, Generation, Lease, Outcome, Policy, Refusal, StartStep,
};
use pinfold_provider::fake::Call;
use pinfold_store::{IdempotencyKey, Store};

use crate::pool::{asking, pool_of};
use crate::seams::{DAWN, answered_after, hangs};
use crate::stage::{SECOND, Stage, first_check_ms, words};

fn running(command: &str) -> RunAsk {
    RunAsk { command: words(command), kind: ExecutionKind::Run, limits: ExecutionLimits::default() }
}

fn one_shot() -> Policy {
    Policy { one_shot: true, ..Policy::default() }
}

#[tokio::test(start_paused = true)]
async fn a_launch_and_its_probe_are_one_commit_and_two_records() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    stage.pass_ms(10).await;
    let before = stage.store.counts().requests;

    let id = stage.ready(&engine, Policy::default()).await;

    assert_eq!(stage.store.counts().requests - before, 2);
    assert_eq!(stage.names(id).await, ["Created", "LaunchBegan", "Launched", "BecameReady"]);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_takes_its_time_is_asked_once_and_the_launch_is_written_before_its_answer() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    stage.weather.next(Call::Probe, answered_after(3 * SECOND));

    let id = stage.create(&engine, Policy::default()).await;
    stage.pass_ms(100).await;
    let lease = stage.sandbox(id).await.lease;
    stage.wait_ready(&engine, id).await.unwrap();

    let Lease::Starting { step: StartStep::Probe, duty, .. } = lease else { panic!("{lease:?}") };
    assert_eq!(duty.deadline.ms_since(duty.asked_at), Policy::default().probe_ms);
    assert_eq!(stage.now(), 3 * SECOND);
    assert_eq!(stage.weather.calls(Call::Probe), 1);
    assert_eq!(stage.times(id, |fact| matches!(fact, Fact::Launched { .. })).await, [0]);
}

#[tokio::test(start_paused = true)]
async fn a_crash_between_a_launch_and_its_probe_leaves_a_body_that_the_next_engine_uses() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    stage.weather.next(Call::Probe, hangs());
    let id = stage.create(&engine, Policy::default()).await;
    stage.pass_ms(5).await;
    let before = stage.sandbox(id).await.lease;

    stage.crash(engine);
    let next = stage.begin().await;
    stage.wait_ready(&next, id).await.unwrap();

    assert!(matches!(before, Lease::Starting { step: StartStep::Launch, .. }), "{before:?}");
    assert_eq!(stage.sandbox(id).await.generation(), Generation(1));
    assert_eq!(stage.bodies().len(), 1);
    stage.assert_sum().await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_between_a_launch_and_its_probe_wins() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    stage.weather.next(Call::Probe, answered_after(10));
    let id = stage.create(&engine, Policy::default()).await;
    stage.pass_ms(5).await;

    let stop = stage.stop(&engine, id).await;
    stage.pass_ms(SECOND).await;

    assert!(matches!(stop, Stop::Gone { .. }), "{stop:?}");
    assert_eq!(stage.times(id, |fact| matches!(fact, Fact::BecameReady { .. })).await, [] as [u64; 0]);
    stage.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn the_start_and_the_end_of_a_short_command_are_one_commit_and_two_records() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    stage.pass_ms(10).await;
    let (before, known) = (stage.store.counts().requests, stage.history(id).await.len());

    let execution = stage.run(&engine, id, "exit 3").await;
    let outcome = stage.outcome(&engine, id, execution).await;

    assert_eq!(outcome, Outcome::exited(3));
    assert_eq!(stage.store.counts().requests - before, 2);
    let names = stage.names(id).await;
    assert_eq!(names[known..], ["ExecutionQueued", "ExecutionStarted", "ExecutionEnded"]);
}

#[tokio::test(start_paused = true)]
async fn a_command_that_runs_on_is_written_as_started_meanwhile() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;

    let execution = stage.run(&engine, id, "sleep 5").await;
    stage.pass_ms(100).await;
    let known = stage.names(id).await;
    let outcome = stage.outcome(&engine, id, execution).await;

    assert_eq!(outcome, Outcome::exited(0));
    assert_eq!(known.last().unwrap(), "ExecutionStarted");
    assert_eq!(stage.times(id, |fact| matches!(fact, Fact::ExecutionStarted { .. })).await, [0]);
}

#[tokio::test(start_paused = true)]
async fn a_crash_before_a_short_command_is_written_as_started_does_not_run_it_again() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    let execution = stage.run(&engine, id, "work 1 3").await;
    stage.pass_ms(1).await;
    let known = stage.names(id).await;

    stage.crash(engine);
    let next = stage.begin().await;
    let outcome = stage.outcome(&next, id, execution).await;

    assert!(!known.contains(&"ExecutionStarted".to_owned()), "{known:?}");
    assert_eq!(outcome, Outcome::exited(3));
    assert_eq!(stage.times(id, |fact| matches!(fact, Fact::ExecutionEnded { .. })).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_whole_life_is_four_commits() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    stage.pass_ms(10).await;
    let before = stage.store.counts().requests;
    let ask = CreateAsk { policy: one_shot(), ..CreateAsk::default() };

    let (id, execution) = engine.create_and_execute(ask, running("exit 3")).await.unwrap();
    let outcome = stage.outcome(&engine, id, execution).await;
    let gone = engine.wait_gone(id, SECOND).await.unwrap();

    assert_eq!(outcome, Outcome::exited(3));
    assert!(matches!(gone, Stop::Gone { .. }), "{gone:?}");
    assert_eq!(stage.store.counts().requests - before, 4);
    let names = stage.names(id).await;
    let began = ["Created", "LaunchBegan", "ExecutionQueued", "Launched", "BecameReady"];
    assert_eq!(names[..5], began);
    let ended = ["ExecutionStarted", "ExecutionEnded", "EndDecided", "StopBegan", "LeaseFreed", "Ended"];
    assert_eq!(names[5..], ended);
    stage.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_from_the_pool_and_what_is_to_run_are_one_commit() {
    let stage = Stage::new();
    let engine = stage.begin_with(pool_of(1)).await;
    let waiting = stage.until_pool_has(1).await;
    stage.weather.always(Call::Start, hangs());

    let (id, execution) = engine.create_and_execute(asking(), running("exit 3")).await.unwrap();
    let history = stage.store.history(Some(id), pinfold_store::Seq::default(), 100).await.unwrap();
    let outcome = stage.outcome(&engine, id, execution).await;

    assert_eq!([id], waiting[..]);
    let created = history.iter().position(|row| row.record.fact == Fact::Created).unwrap();
    assert_eq!(history[created + 1].record.fact, Fact::ExecutionQueued { execution });
    assert_eq!(history[created + 1].seq.0, history[created].seq.0 + 1);
    assert_eq!(outcome, Outcome::exited(3));
}

#[tokio::test(start_paused = true)]
async fn the_same_key_gives_the_same_sandbox_and_the_same_execution() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let key = IdempotencyKey { key: "k".into(), request: "r".into(), expires_at: DAWN.after_ms(SECOND) };
    let ask = CreateAsk { key: Some(key), ..CreateAsk::default() };

    let first = engine.create_and_execute(ask.clone(), running("sleep 1")).await.unwrap();
    let again = engine.create_and_execute(ask, running("sleep 1")).await.unwrap();

    assert_eq!(first, again);
    assert_eq!(stage.store.executions(first.0).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_whose_policy_has_no_place_for_what_is_to_run_is_not_created() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let policy = Policy { side_by_side: 0, queue_length: 0, ..Policy::default() };

    let refused =
        engine.create_and_execute(CreateAsk { policy, ..CreateAsk::default() }, running("true")).await;

    let busy = |error| matches!(error, RunError::Execute(ApplyError::Refused(Refusal::Busy { .. })));
    assert!(refused.is_err_and(busy));
    assert_eq!(stage.store.totals().await.unwrap().created, 0);
    assert_eq!(stage.bodies(), []);
}

#[tokio::test(start_paused = true)]
async fn a_routine_ping_that_passes_is_one_commit() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    let checked = first_check_ms(id);
    stage.pass_ms(checked - 100).await;
    let (before, version) = (stage.store.counts().requests, stage.stored(id).await.version);

    stage.pass_ms(200).await;

    assert_eq!(stage.weather.calls(Call::Ping), 1);
    assert_ne!(stage.stored(id).await.version, version);
    assert_eq!(stage.store.counts().requests - before, 1);
    let Lease::Live(live) = stage.sandbox(id).await.lease else { panic!("it lives") };
    assert_eq!(live.health.verified_at.ms_since(DAWN), checked);
    assert_eq!(live.check, None);
}

#[tokio::test(start_paused = true)]
async fn a_routine_ping_that_takes_its_time_is_written_as_asked_and_asked_once() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    stage.weather.next(Call::Ping, answered_after(3 * SECOND));

    stage.pass_ms(first_check_ms(id) + SECOND).await;
    let Lease::Live(asked) = stage.sandbox(id).await.lease else { panic!("it lives") };
    stage.pass_ms(3 * SECOND).await;
    let Lease::Live(answered) = stage.sandbox(id).await.lease else { panic!("it lives") };

    let checked = first_check_ms(id);
    assert_eq!(asked.check.unwrap().duty.asked_at.ms_since(DAWN), checked);
    assert_eq!(stage.weather.calls(Call::Ping), 1);
    assert_eq!((answered.check, answered.health.verified_at.ms_since(DAWN)), (None, checked));
}
