//! Events that arrive together are committed together, in order, and a crash before the commit loses nothing.

use pinfold_engine::{ApplyError, CreateRequest, RunError, RunRequest, StopProgress};
use pinfold_lifecycle::{
    ExecutionKind, ExecutionLimits, Fact, Generation, Lease, Outcome, Policy, Refusal, StartStep,
};
use pinfold_provider::fake::Call;
use pinfold_store::{IdempotencyKey, Store};

use crate::fakes::{START, answered_after, hangs};
use crate::fixture::{Fixture, SECOND, first_check_ms, words};
use crate::pool::{pool_of, requesting};

fn running(command: &str) -> RunRequest {
    RunRequest { command: words(command), kind: ExecutionKind::Run, limits: ExecutionLimits::default() }
}

fn one_shot() -> Policy {
    Policy { one_shot: true, ..Policy::default() }
}

#[tokio::test(start_paused = true)]
async fn a_launch_and_its_probe_are_one_commit_and_two_records() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    fixture.pass_ms(10).await;
    let before = fixture.store.counts().requests;

    let id = fixture.ready(&engine, Policy::default()).await;

    assert_eq!(fixture.store.counts().requests - before, 2);
    assert_eq!(fixture.names(id).await, ["Created", "LaunchBegan", "Launched", "BecameReady"]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_probe_runs_once_and_the_launch_is_committed_before_its_result() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    fixture.faults.next(Call::Probe, answered_after(3 * SECOND));

    let id = fixture.create(&engine, Policy::default()).await;
    fixture.pass_ms(100).await;
    let lease = fixture.sandbox(id).await.lease;
    fixture.wait_ready(&engine, id).await.unwrap();

    let Lease::Starting { step: StartStep::Probe, pending, .. } = lease else { panic!("{lease:?}") };
    assert_eq!(pending.deadline.ms_since(pending.requested_at), Policy::default().probe_ms);
    assert_eq!(fixture.now(), 3 * SECOND);
    assert_eq!(fixture.faults.calls(Call::Probe), 1);
    assert_eq!(fixture.times(id, |fact| matches!(fact, Fact::Launched { .. })).await, [0]);
}

#[tokio::test(start_paused = true)]
async fn a_crash_between_a_launch_and_its_probe_leaves_an_instance_that_the_next_engine_uses() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    fixture.faults.next(Call::Probe, hangs());
    let id = fixture.create(&engine, Policy::default()).await;
    fixture.pass_ms(5).await;
    let before = fixture.sandbox(id).await.lease;

    fixture.crash(engine);
    let next = fixture.start_engine().await;
    fixture.wait_ready(&next, id).await.unwrap();

    assert!(matches!(before, Lease::Starting { step: StartStep::Launch, .. }), "{before:?}");
    assert_eq!(fixture.sandbox(id).await.generation(), Generation(1));
    assert_eq!(fixture.instances().len(), 1);
    fixture.assert_sum().await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_between_a_launch_and_its_probe_wins() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    fixture.faults.next(Call::Probe, answered_after(10));
    let id = fixture.create(&engine, Policy::default()).await;
    fixture.pass_ms(5).await;

    let stop = fixture.stop(&engine, id).await;
    fixture.pass_ms(SECOND).await;

    assert!(matches!(stop, StopProgress::Gone { .. }), "{stop:?}");
    assert_eq!(fixture.times(id, |fact| matches!(fact, Fact::BecameReady { .. })).await, [] as [u64; 0]);
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn the_start_and_the_end_of_a_short_command_are_one_commit_and_two_records() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    fixture.pass_ms(10).await;
    let (before, known) = (fixture.store.counts().requests, fixture.history(id).await.len());

    let execution = fixture.run(&engine, id, "exit 3").await;
    let outcome = fixture.outcome(&engine, id, execution).await;

    assert_eq!(outcome, Outcome::exited(3));
    assert_eq!(fixture.store.counts().requests - before, 2);
    let names = fixture.names(id).await;
    assert_eq!(names[known..], ["ExecutionQueued", "ExecutionStarted", "ExecutionEnded"]);
}

#[tokio::test(start_paused = true)]
async fn a_long_command_is_committed_as_started_before_its_end() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;

    let execution = fixture.run(&engine, id, "sleep 5").await;
    fixture.pass_ms(100).await;
    let known = fixture.names(id).await;
    let outcome = fixture.outcome(&engine, id, execution).await;

    assert_eq!(outcome, Outcome::exited(0));
    assert_eq!(known.last().unwrap(), "ExecutionStarted");
    assert_eq!(fixture.times(id, |fact| matches!(fact, Fact::ExecutionStarted { .. })).await, [0]);
}

#[tokio::test(start_paused = true)]
async fn a_crash_before_a_short_command_is_written_as_started_does_not_run_it_again() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    let execution = fixture.run(&engine, id, "work 1 3").await;
    fixture.pass_ms(1).await;
    let known = fixture.names(id).await;

    fixture.crash(engine);
    let next = fixture.start_engine().await;
    let outcome = fixture.outcome(&next, id, execution).await;

    assert!(!known.contains(&"ExecutionStarted".to_owned()), "{known:?}");
    assert_eq!(outcome, Outcome::exited(3));
    assert_eq!(fixture.times(id, |fact| matches!(fact, Fact::ExecutionEnded { .. })).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_whole_life_is_four_commits() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    fixture.pass_ms(10).await;
    let before = fixture.store.counts().requests;
    let ask = CreateRequest { policy: one_shot().into(), ..CreateRequest::default() };

    let (id, execution) = engine.create_and_execute(ask, running("exit 3")).await.unwrap();
    let outcome = fixture.outcome(&engine, id, execution).await;
    let gone = engine.wait_gone(id, SECOND).await.unwrap();

    assert_eq!(outcome, Outcome::exited(3));
    assert!(matches!(gone, StopProgress::Gone { .. }), "{gone:?}");
    assert_eq!(fixture.store.counts().requests - before, 4);
    let names = fixture.names(id).await;
    let began = ["Created", "LaunchBegan", "ExecutionQueued", "Launched", "BecameReady"];
    assert_eq!(names[..5], began);
    let ended = ["ExecutionStarted", "ExecutionEnded", "EndDecided", "StopBegan", "LeaseFreed", "Ended"];
    assert_eq!(names[5..], ended);
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_from_the_pool_and_its_first_execution_are_one_commit() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_with(pool_of(1)).await;
    let waiting = fixture.until_pool_has(1).await;
    fixture.faults.always(Call::Start, hangs());

    let (id, execution) = engine.create_and_execute(requesting(), running("exit 3")).await.unwrap();
    let history = fixture.store.history(Some(id), pinfold_store::Seq::default(), 100).await.unwrap();
    let outcome = fixture.outcome(&engine, id, execution).await;

    assert_eq!([id], waiting[..]);
    let created = history.iter().position(|row| row.record.fact == Fact::Created).unwrap();
    assert_eq!(history[created + 1].record.fact, Fact::ExecutionQueued { execution });
    assert_eq!(history[created + 1].seq.0, history[created].seq.0 + 1);
    assert_eq!(outcome, Outcome::exited(3));
}

#[tokio::test(start_paused = true)]
async fn the_same_key_gives_the_same_sandbox_and_the_same_execution() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let key = IdempotencyKey { key: "k".into(), request: "r".into(), expires_at: START.after_ms(SECOND) };
    let ask = CreateRequest { key: Some(key), ..CreateRequest::default() };

    let first = engine.create_and_execute(ask.clone(), running("sleep 1")).await.unwrap();
    let again = engine.create_and_execute(ask, running("sleep 1")).await.unwrap();

    assert_eq!(first, again);
    assert_eq!(fixture.store.executions(first.0).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_whose_policy_refuses_the_first_execution_is_not_created() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let policy = Policy { max_concurrent: 0, queue_length: 0, ..Policy::default() };

    let refused = engine
        .create_and_execute(
            CreateRequest { policy: policy.into(), ..CreateRequest::default() },
            running("true"),
        )
        .await;

    let busy = |error| matches!(error, RunError::Execute(ApplyError::Refused(Refusal::Busy { .. })));
    assert!(refused.is_err_and(busy));
    assert_eq!(fixture.store.totals().await.unwrap().created, 0);
    assert_eq!(fixture.instances(), []);
}

#[tokio::test(start_paused = true)]
async fn a_routine_ping_that_passes_is_one_commit() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    let checked = first_check_ms(id);
    fixture.pass_ms(checked - 100).await;
    let (before, version) = (fixture.store.counts().requests, fixture.stored(id).await.version);

    fixture.pass_ms(200).await;

    assert_eq!(fixture.faults.calls(Call::Ping), 1);
    assert_ne!(fixture.stored(id).await.version, version);
    assert_eq!(fixture.store.counts().requests - before, 1);
    let Lease::Live(live) = fixture.sandbox(id).await.lease else { panic!("not live") };
    assert_eq!(live.health.verified_at.ms_since(START), checked);
    assert_eq!(live.check, None);
}

#[tokio::test(start_paused = true)]
async fn a_slow_routine_ping_is_committed_as_pending_and_sent_once() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    fixture.faults.next(Call::Ping, answered_after(3 * SECOND));

    fixture.pass_ms(first_check_ms(id) + SECOND).await;
    let Lease::Live(requested) = fixture.sandbox(id).await.lease else { panic!("not live") };
    fixture.pass_ms(3 * SECOND).await;
    let Lease::Live(answered) = fixture.sandbox(id).await.lease else { panic!("not live") };

    let checked = first_check_ms(id);
    assert_eq!(requested.check.unwrap().pending.requested_at.ms_since(START), checked);
    assert_eq!(fixture.faults.calls(Call::Ping), 1);
    assert_eq!((answered.check, answered.health.verified_at.ms_since(START)), (None, checked));
}
