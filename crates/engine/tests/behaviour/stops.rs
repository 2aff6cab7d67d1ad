//! A stop wins in every state, through every engine, and answers with a proof.

use pinfold_engine::{ApplyError, Config, Engine, StopProgress};
use pinfold_lifecycle::{
    Cause, ExecutionKind, ExecutionLimits, Finding, Lease, Policy, Refusal, Sandbox, SandboxId, State,
    Verdict,
};
use pinfold_provider::fake::{Call, Fault};
use pinfold_store::Store;

use crate::fakes::{answered_after, fault, halfway, hangs, slow};
use crate::fixture::{Fixture, MINUTE, SECOND, words};

fn assert_gone(stop: &StopProgress, expected: Cause) {
    match stop {
        StopProgress::Gone { cause, receipt } => {
            assert_eq!(*cause, expected);
            assert!(receipt.checks.iter().all(|check| check.result == Finding::Absent));
            assert!(receipt.proves_absence());
        }
        StopProgress::Pending => panic!("not proven gone"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_during_the_launch_leaves_nothing() {
    for launch in [slow(10 * SECOND), halfway(10 * SECOND), answered_after(10 * SECOND)] {
        let fixture = Fixture::new();
        let engine = fixture.start_engine().await;
        fixture.faults.next(Call::Start, launch);
        let id = fixture.create(&engine, Policy::default()).await;
        fixture.pass_ms(SECOND).await;

        let stop = fixture.stop(&engine, id).await;
        fixture.pass_ms(MINUTE).await;

        assert_gone(&stop, Cause::StoppedByUser);
        assert_eq!(fixture.sandbox(id).await.launches, 1);
        fixture.assert_nothing_is_left().await;
    }
}

/// The launching engine does not notice the stop: its launch is suspended in each of its steps.
#[tokio::test(start_paused = true)]
async fn a_launch_resumed_after_the_stop_starts_no_instance() {
    let steps = [
        ("before its marker", slow(20 * SECOND), SECOND),
        ("before its permit", halfway(20 * SECOND), SECOND),
        ("after its permit", halfway(20 * SECOND), 25 * SECOND),
    ];
    for (step, launch, stopped_after) in steps {
        let fixture = Fixture::new();
        let unaware = Config { poll_ms: 60 * MINUTE, ..Config::default() };
        let (launching, stopping) = (fixture.start_engine_with(unaware).await, fixture.start_engine().await);
        fixture.faults.next(Call::Start, launch);
        let id = fixture.create(&launching, Policy::default()).await;
        fixture.pass_ms(stopped_after).await;

        let stop = fixture.stop(&stopping, id).await;
        fixture.pass_ms(45 * SECOND).await;

        assert_gone(&stop, Cause::StoppedByUser);
        assert_eq!(fixture.instances(), [], "{step}");
        fixture.assert_nothing_is_left().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_can_be_requested_through_a_non_owner() {
    let fixture = Fixture::new();
    let (owner, other) = (fixture.start_engine().await, fixture.start_engine().await);
    let id = fixture.ready(&owner, Policy::default()).await;
    let execution = fixture.run(&owner, id, "hang").await;

    let stop = fixture.stop(&other, id).await;

    assert_gone(&stop, Cause::StoppedByUser);
    assert_eq!(fixture.outcome(&owner, id, execution).await.cause, Cause::StoppedByUser);
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_second_stop_returns_the_same_receipt_without_observing() {
    let fixture = Fixture::new();
    let (engine, other) = (fixture.start_engine().await, fixture.start_engine().await);
    let id = fixture.ready(&engine, Policy::default()).await;

    let first = fixture.stop(&engine, id).await;
    fixture.pass_ms(MINUTE).await;
    let second = engine.stop(id, Cause::Shutdown, Some(0), 0).await.unwrap();
    let third = fixture.stop(&other, id).await;

    assert_gone(&first, Cause::StoppedByUser);
    assert_eq!([&second, &third], [&first, &first]);
    assert_eq!(fixture.faults.calls(Call::Stop), 1);
}

#[tokio::test(start_paused = true)]
async fn two_concurrent_stops_are_one() {
    let fixture = Fixture::new();
    let (one, other) = (fixture.start_engine().await, fixture.start_engine().await);
    let id = fixture.ready(&one, Policy::default()).await;
    fixture.faults.next(Call::Stop, slow(2 * SECOND));

    let (first, second) = tokio::join!(fixture.stop(&one, id), fixture.stop(&other, id));

    assert_gone(&first, Cause::StoppedByUser);
    assert_eq!(first, second);
    assert_eq!(fixture.faults.calls(Call::Stop), 1);
}

#[tokio::test(start_paused = true)]
async fn a_forced_stop_shortens_the_grace_of_a_running_stop() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    fixture.faults.next(Call::Stop, halfway(30 * SECOND));
    assert_eq!(fixture.request_stop(&engine, id).await, StopProgress::Pending);

    fixture.pass_ms(SECOND).await;
    let stop = engine.stop(id, Cause::StoppedByUser, Some(0), MINUTE).await.unwrap();

    assert_gone(&stop, Cause::StoppedByUser);
    assert_eq!(fixture.now(), SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_hanging_launch_frees_its_slot() {
    let fixture = Fixture::new();
    let narrow = Config { launches: 1, ..Config::default() };
    let (engine, other) = (fixture.start_engine_with(narrow).await, fixture.start_engine().await);
    fixture.faults.next(Call::Start, hangs());
    fixture.faults.next(Call::Start, hangs());
    let (first, second) =
        (fixture.create(&engine, Policy::default()).await, fixture.create(&engine, Policy::default()).await);
    let third = fixture.create(&engine, Policy::default()).await;
    fixture.pass_ms(SECOND).await;

    fixture.stop(&engine, first).await;
    fixture.pass_ms(SECOND).await;
    fixture.stop(&other, second).await;
    fixture.wait_ready(&engine, third).await.unwrap();

    assert!(fixture.now() <= 3 * SECOND, "{}", fixture.now());
}

async fn provisioning(fixture: &Fixture, engine: &Engine) -> SandboxId {
    fixture.faults.next(Call::Start, slow(10 * SECOND));
    fixture.create(engine, Policy::default()).await
}

async fn running(fixture: &Fixture, engine: &Engine) -> SandboxId {
    let id = fixture.ready(engine, Policy::default()).await;
    fixture.run(engine, id, "hang").await;
    fixture.pass_ms(SECOND).await;
    id
}

async fn unhealthy(fixture: &Fixture, engine: &Engine) -> SandboxId {
    let id = fixture.ready(engine, Policy::default()).await;
    fixture.faults.next(Call::Ping, fault(Fault::Fails));
    fixture.faults.next(Call::Probe, fault(Fault::Fails));
    let is_unhealthy = |sandbox: &Sandbox| match &sandbox.lease {
        Lease::Live(live) => matches!(live.health.verdict, Verdict::Unhealthy { .. }),
        _ => false,
    };
    fixture.until(id, 16 * SECOND, is_unhealthy).await;
    id
}

async fn stop_waiting(fixture: &Fixture, engine: &Engine) -> SandboxId {
    let id = fixture.ready(engine, Policy::default()).await;
    fixture.faults.next(Call::Stop, fault(Fault::ObserveFails));
    fixture.request_stop(engine, id).await;
    fixture.until(id, SECOND, |sandbox| matches!(sandbox.lease, Lease::StopWaiting { .. })).await;
    id
}

async fn quarantined(fixture: &Fixture, engine: &Engine) -> SandboxId {
    let id = fixture.ready(engine, Policy { stop_attempts: 1, ..Policy::default() }).await;
    fixture.faults.next(Call::Stop, fault(Fault::ObserveFails));
    fixture.request_stop(engine, id).await;
    fixture.until(id, SECOND, |sandbox| matches!(sandbox.lease, Lease::Quarantined { .. })).await;
    id
}

async fn out_of_date(fixture: &Fixture, engine: &Engine) -> SandboxId {
    let id = fixture.ready(engine, Policy { evidence_ms: SECOND, ..Policy::default() }).await;
    fixture.pass_ms(2 * SECOND).await;
    id
}

async fn ended_with(fixture: &Fixture, engine: &Engine, command: &str) -> SandboxId {
    let id = fixture.create(engine, Policy { one_shot: true, ..Policy::default() }).await;
    fixture.run(engine, id, command).await;
    fixture.until(id, MINUTE, |sandbox| sandbox.is_settled()).await;
    id
}

async fn stopped(fixture: &Fixture, engine: &Engine) -> SandboxId {
    let id = fixture.ready(engine, Policy::default()).await;
    fixture.stop(engine, id).await;
    id
}

/// A sandbox in the given state.
async fn shown_as(state: State, fixture: &Fixture, engine: &Engine) -> SandboxId {
    match state {
        State::Provisioning => provisioning(fixture, engine).await,
        State::Ready => fixture.ready(engine, Policy::default()).await,
        State::Running => running(fixture, engine).await,
        State::Unhealthy => unhealthy(fixture, engine).await,
        State::Unknown => out_of_date(fixture, engine).await,
        State::Terminating => stop_waiting(fixture, engine).await,
        State::Quarantined => quarantined(fixture, engine).await,
        State::Completed => ended_with(fixture, engine, "true").await,
        State::Failed => ended_with(fixture, engine, "exit 3").await,
        State::Terminated => stopped(fixture, engine).await,
    }
}

/// The cause a stop reports: a sandbox that has already ended keeps its own.
fn reported_cause(state: State) -> Cause {
    match state {
        State::Completed => Cause::Completed,
        State::Failed => Cause::ExitNonzero,
        State::Provisioning
        | State::Ready
        | State::Running
        | State::Unhealthy
        | State::Unknown
        | State::Terminating
        | State::Quarantined
        | State::Terminated => Cause::StoppedByUser,
    }
}

/// All states. A new state breaks the build here until it is added.
fn after(state: State) -> Option<State> {
    match state {
        State::Provisioning => Some(State::Ready),
        State::Ready => Some(State::Running),
        State::Running => Some(State::Unhealthy),
        State::Unhealthy => Some(State::Unknown),
        State::Unknown => Some(State::Terminating),
        State::Terminating => Some(State::Quarantined),
        State::Quarantined => Some(State::Completed),
        State::Completed => Some(State::Failed),
        State::Failed => Some(State::Terminated),
        State::Terminated => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_is_legal_in_every_state() {
    for state in std::iter::successors(Some(State::Provisioning), |state| after(*state)) {
        let fixture = Fixture::new();
        let engine = fixture.start_engine().await;
        let id = shown_as(state, &fixture, &engine).await;
        assert_eq!(fixture.state(id).await, state);

        let stop = fixture.stop(&engine, id).await;

        assert_gone(&stop, reported_cause(state));
        fixture.assert_nothing_is_left().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_execution_in_an_ending_or_ended_sandbox_is_refused_with_the_cause() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    fixture.faults.next(Call::Stop, slow(5 * SECOND));
    let work = || engine.execute(id, words("true"), ExecutionKind::Run, ExecutionLimits::default(), true);
    fixture.request_stop(&engine, id).await;

    let while_ending = work().await;
    fixture.stop(&engine, id).await;
    let after_the_end = work().await;

    let cause = Cause::StoppedByUser;
    assert!(
        matches!(while_ending, Err(ApplyError::Refused(Refusal::Ending { cause: reported })) if reported == cause)
    );
    assert!(
        matches!(after_the_end, Err(ApplyError::Refused(Refusal::Ended { cause: reported })) if reported == cause)
    );
    assert!(fixture.store.executions(id).await.unwrap().is_empty());
}
