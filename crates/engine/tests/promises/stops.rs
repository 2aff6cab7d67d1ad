//! A stop wins in every state, through every engine, and answers with a proof.

use pinfold_engine::{ApplyError, Config, Engine, Stop};
use pinfold_lifecycle::{
    Cause, ExecutionKind, ExecutionLimits, Finding, Lease, Policy, Refusal, Sandbox, SandboxId, State,
    Verdict,
};
use pinfold_provider::fake::{Call, Fault};
use pinfold_store::Store;

use crate::seams::{answered_after, fault, halfway, hangs, slow};
use crate::stage::{MINUTE, SECOND, Stage, words};

fn assert_gone(stop: &Stop, expected: Cause) {
    match stop {
        Stop::Gone { cause, receipt } => {
            assert_eq!(*cause, expected);
            assert!(receipt.checks.iter().all(|check| check.result == Finding::Absent));
            assert!(receipt.proves_absence());
        }
        Stop::Pending => panic!("not proven gone"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_the_sandbox_is_being_made_leaves_nothing() {
    for launch in [slow(10 * SECOND), halfway(10 * SECOND), answered_after(10 * SECOND)] {
        let stage = Stage::new();
        let engine = stage.begin().await;
        stage.weather.next(Call::Start, launch);
        let id = stage.create(&engine, Policy::default()).await;
        stage.pass_ms(SECOND).await;

        let stop = stage.stop(&engine, id).await;
        stage.pass_ms(MINUTE).await;

        assert_gone(&stop, Cause::StoppedByUser);
        assert_eq!(stage.sandbox(id).await.launches, 1);
        stage.assert_nothing_is_left().await;
    }
}

/// The launching engine does not notice the stop: its launch sleeps through it, in each of its steps.
#[tokio::test(start_paused = true)]
async fn a_launch_that_wakes_up_after_the_stop_makes_no_body() {
    let steps = [
        ("before its mark", slow(20 * SECOND), SECOND),
        ("before its permit", halfway(20 * SECOND), SECOND),
        ("after its permit", halfway(20 * SECOND), 25 * SECOND),
    ];
    for (step, launch, stopped_after) in steps {
        let stage = Stage::new();
        let unaware = Config { poll_ms: 60 * MINUTE, ..Config::default() };
        let (launching, stopping) = (stage.begin_with(unaware).await, stage.begin().await);
        stage.weather.next(Call::Start, launch);
        let id = stage.create(&launching, Policy::default()).await;
        stage.pass_ms(stopped_after).await;

        let stop = stage.stop(&stopping, id).await;
        stage.pass_ms(45 * SECOND).await;

        assert_gone(&stop, Cause::StoppedByUser);
        assert_eq!(stage.bodies(), [], "{step}");
        stage.assert_nothing_is_left().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_can_be_asked_through_an_engine_that_is_not_the_owner() {
    let stage = Stage::new();
    let (owner, other) = (stage.begin().await, stage.begin().await);
    let id = stage.ready(&owner, Policy::default()).await;
    let execution = stage.run(&owner, id, "hang").await;

    let stop = stage.stop(&other, id).await;

    assert_gone(&stop, Cause::StoppedByUser);
    assert_eq!(stage.outcome(&owner, id, execution).await.cause, Cause::StoppedByUser);
    stage.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_second_stop_gives_the_same_receipt_and_looks_at_nothing() {
    let stage = Stage::new();
    let (engine, other) = (stage.begin().await, stage.begin().await);
    let id = stage.ready(&engine, Policy::default()).await;

    let first = stage.stop(&engine, id).await;
    stage.pass_ms(MINUTE).await;
    let second = engine.stop(id, Cause::Shutdown, true, 0).await.unwrap();
    let third = stage.stop(&other, id).await;

    assert_gone(&first, Cause::StoppedByUser);
    assert_eq!([&second, &third], [&first, &first]);
    assert_eq!(stage.weather.calls(Call::Stop), 1);
}

#[tokio::test(start_paused = true)]
async fn two_stops_at_the_same_time_are_one() {
    let stage = Stage::new();
    let (one, other) = (stage.begin().await, stage.begin().await);
    let id = stage.ready(&one, Policy::default()).await;
    stage.weather.next(Call::Stop, slow(2 * SECOND));

    let (first, second) = tokio::join!(stage.stop(&one, id), stage.stop(&other, id));

    assert_gone(&first, Cause::StoppedByUser);
    assert_eq!(first, second);
    assert_eq!(stage.weather.calls(Call::Stop), 1);
}

#[tokio::test(start_paused = true)]
async fn a_forced_stop_cuts_the_grace_of_one_under_way_short() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    stage.weather.next(Call::Stop, halfway(30 * SECOND));
    assert_eq!(stage.ask_to_stop(&engine, id).await, Stop::Pending);

    stage.pass_ms(SECOND).await;
    let stop = engine.stop(id, Cause::StoppedByUser, true, MINUTE).await.unwrap();

    assert_gone(&stop, Cause::StoppedByUser);
    assert_eq!(stage.now(), SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_launch_that_hangs_gives_its_place_to_the_next_one_when_it_is_stopped() {
    let stage = Stage::new();
    let narrow = Config { launches: 1, ..Config::default() };
    let (engine, other) = (stage.begin_with(narrow).await, stage.begin().await);
    stage.weather.next(Call::Start, hangs());
    stage.weather.next(Call::Start, hangs());
    let (first, second) =
        (stage.create(&engine, Policy::default()).await, stage.create(&engine, Policy::default()).await);
    let third = stage.create(&engine, Policy::default()).await;
    stage.pass_ms(SECOND).await;

    stage.stop(&engine, first).await;
    stage.pass_ms(SECOND).await;
    stage.stop(&other, second).await;
    stage.wait_ready(&engine, third).await.unwrap();

    assert!(stage.now() <= 3 * SECOND, "{}", stage.now());
}

async fn provisioning(stage: &Stage, engine: &Engine) -> SandboxId {
    stage.weather.next(Call::Start, slow(10 * SECOND));
    stage.create(engine, Policy::default()).await
}

async fn running(stage: &Stage, engine: &Engine) -> SandboxId {
    let id = stage.ready(engine, Policy::default()).await;
    stage.run(engine, id, "hang").await;
    stage.pass_ms(SECOND).await;
    id
}

async fn unhealthy(stage: &Stage, engine: &Engine) -> SandboxId {
    let id = stage.ready(engine, Policy::default()).await;
    stage.weather.next(Call::Ping, fault(Fault::Fails));
    stage.weather.next(Call::Probe, fault(Fault::Fails));
    let is_unhealthy = |sandbox: &Sandbox| match &sandbox.lease {
        Lease::Live(live) => matches!(live.health.verdict, Verdict::Unhealthy { .. }),
        _ => false,
    };
    stage.until(id, 16 * SECOND, is_unhealthy).await;
    id
}

async fn stop_waiting(stage: &Stage, engine: &Engine) -> SandboxId {
    let id = stage.ready(engine, Policy::default()).await;
    stage.weather.next(Call::Stop, fault(Fault::LookFails));
    stage.ask_to_stop(engine, id).await;
    stage.until(id, SECOND, |sandbox| matches!(sandbox.lease, Lease::StopWaiting { .. })).await;
    id
}

async fn quarantined(stage: &Stage, engine: &Engine) -> SandboxId {
    let id = stage.ready(engine, Policy { stop_attempts: 1, ..Policy::default() }).await;
    stage.weather.next(Call::Stop, fault(Fault::LookFails));
    stage.ask_to_stop(engine, id).await;
    stage.until(id, SECOND, |sandbox| matches!(sandbox.lease, Lease::Quarantined { .. })).await;
    id
}

async fn out_of_date(stage: &Stage, engine: &Engine) -> SandboxId {
    let id = stage.ready(engine, Policy { evidence_ms: SECOND, ..Policy::default() }).await;
    stage.pass_ms(2 * SECOND).await;
    id
}

async fn ended_with(stage: &Stage, engine: &Engine, command: &str) -> SandboxId {
    let id = stage.create(engine, Policy { one_shot: true, ..Policy::default() }).await;
    stage.run(engine, id, command).await;
    stage.until(id, MINUTE, |sandbox| sandbox.is_settled()).await;
    id
}

async fn stopped(stage: &Stage, engine: &Engine) -> SandboxId {
    let id = stage.ready(engine, Policy::default()).await;
    stage.stop(engine, id).await;
    id
}

/// A sandbox that is shown in this state.
async fn shown_as(state: State, stage: &Stage, engine: &Engine) -> SandboxId {
    match state {
        State::Provisioning => provisioning(stage, engine).await,
        State::Ready => stage.ready(engine, Policy::default()).await,
        State::Running => running(stage, engine).await,
        State::Unhealthy => unhealthy(stage, engine).await,
        State::Unknown => out_of_date(stage, engine).await,
        State::Terminating => stop_waiting(stage, engine).await,
        State::Quarantined => quarantined(stage, engine).await,
        State::Completed => ended_with(stage, engine, "true").await,
        State::Failed => ended_with(stage, engine, "exit 3").await,
        State::Terminated => stopped(stage, engine).await,
    }
}

/// What a stop says that it ended for: whatever has ended already keeps its own cause.
fn cause_told(state: State) -> Cause {
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

/// The walk over all states: a new one breaks the build here until it has its place.
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
        let stage = Stage::new();
        let engine = stage.begin().await;
        let id = shown_as(state, &stage, &engine).await;
        assert_eq!(stage.state(id).await, state);

        let stop = stage.stop(&engine, id).await;

        assert_gone(&stop, cause_told(state));
        stage.assert_nothing_is_left().await;
    }
}

#[tokio::test(start_paused = true)]
async fn work_for_a_sandbox_that_is_ending_or_has_ended_is_refused_with_the_cause() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    stage.weather.next(Call::Stop, slow(5 * SECOND));
    let work = || engine.execute(id, words("true"), ExecutionKind::Run, ExecutionLimits::default(), true);
    stage.ask_to_stop(&engine, id).await;

    let while_ending = work().await;
    stage.stop(&engine, id).await;
    let after_the_end = work().await;

    let cause = Cause::StoppedByUser;
    assert!(
        matches!(while_ending, Err(ApplyError::Refused(Refusal::Ending { cause: told })) if told == cause)
    );
    assert!(
        matches!(after_the_end, Err(ApplyError::Refused(Refusal::Ended { cause: told })) if told == cause)
    );
    assert!(stage.store.executions(id).await.unwrap().is_empty());
}
