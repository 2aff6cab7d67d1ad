//! How a sandbox begins: probed before it is called ready, tried again where that helps, and never for ever.

use pinfold_engine::Waited;
use pinfold_lifecycle::{Cause, Fact, Generation, Lease, Policy, State};
use pinfold_provider::fake::{Call, Fault};

use crate::seams::{DAWN, answered_after, fault, halfway, hangs, slow};
use crate::stage::{SECOND, Stage};

#[tokio::test(start_paused = true)]
async fn a_sandbox_becomes_ready_only_after_its_probe_passed() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    stage.weather.next(Call::Probe, answered_after(3 * SECOND));

    let id = stage.create(&engine, Policy::default()).await;
    stage.pass_ms(2 * SECOND).await;
    let before = stage.state(id).await;
    stage.wait_ready(&engine, id).await.unwrap();

    assert_eq!(before, State::Provisioning);
    assert_eq!(stage.state(id).await, State::Ready);
    assert_eq!(stage.times(id, is_launched).await, [0]);
    assert_eq!(stage.times(id, is_ready).await, [3 * SECOND]);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_fails_its_probe_is_replaced_by_a_later_generation() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    stage.weather.next(Call::Probe, fault(Fault::Fails));

    let id = stage.ready(&engine, Policy::default()).await;

    assert_eq!(stage.sandbox(id).await.generation(), Generation(2));
    assert_eq!(stage.bodies().len(), 1);
    assert_eq!(stage.bodies()[0].body.generation, Generation(2));
}

#[tokio::test(start_paused = true)]
async fn a_launch_that_fails_is_tried_again_with_a_higher_generation() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    stage.weather.next(Call::Start, fault(Fault::Fails));
    stage.weather.next(Call::Start, fault(Fault::HalfDone));

    let id = stage.ready(&engine, Policy::default()).await;

    assert_eq!(stage.sandbox(id).await.generation(), Generation(3));
    assert_eq!(stage.bodies().len(), 1);
    stage.assert_sum().await;
}

#[tokio::test(start_paused = true)]
async fn a_launch_that_always_fails_is_tried_as_often_as_the_policy_says() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    stage.weather.always(Call::Start, fault(Fault::HalfDone));

    let id = stage.create(&engine, Policy { launches: 4, ..Policy::default() }).await;
    let waited = stage.wait_ready(&engine, id).await;
    stage.stop(&engine, id).await;

    assert_eq!(waited, Err(Cause::StartFailed));
    assert_eq!(stage.weather.calls(Call::Start), 4);
    assert_eq!(stage.times(id, |fact| matches!(fact, Fact::LaunchBegan { .. })).await.len(), 4);
    assert_eq!(stage.state(id).await, State::Failed);
    stage.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_launch_that_hangs_ends_at_the_start_deadline_and_its_stop_is_decided_before_anybody_is_told() {
    for launch in [hangs(), halfway(hangs().before_ms), answered_after(hangs().before_ms)] {
        let stage = Stage::new();
        let engine = stage.begin().await;
        stage.weather.next(Call::Start, launch);
        let id = stage.create(&engine, Policy::default()).await;

        let waited = stage.wait_ready(&engine, id).await;
        let (told_at, lease) = (stage.now(), stage.sandbox(id).await.lease);
        stage.stop(&engine, id).await;

        assert_eq!(waited, Err(Cause::StartDeadline));
        assert_eq!(told_at, 60 * SECOND);
        assert!(matches!(lease, Lease::Stopping { .. } | Lease::Free { .. }), "{lease:?}");
        stage.assert_nothing_is_left().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_readiness_whose_deadline_passes_says_so_and_changes_nothing() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    stage.weather.next(Call::Start, slow(20 * SECOND));
    let id = stage.create(&engine, Policy::default()).await;

    let waited = engine.wait_ready(id, DAWN.after_ms(7 * SECOND)).await.unwrap();
    let passed_at = stage.now();

    assert_eq!(waited, Waited::DeadlinePassed);
    assert_eq!(passed_at, 7 * SECOND);
    assert_eq!(stage.wait_ready(&engine, id).await, Ok(()));
    assert_eq!(stage.now(), 20 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_proof_of_readiness_that_grows_old_is_not_shown_as_ready() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    stage.weather.always(Call::Ping, hangs());
    stage.weather.always(Call::Probe, hangs());

    stage.pass_ms(29 * SECOND).await;
    let fresh = stage.state(id).await;
    stage.pass_ms(2 * SECOND).await;
    let stale = stage.state(id).await;
    stage.weather.clear_up();
    stage.pass_ms(10 * SECOND).await;

    assert_eq!(fresh, State::Ready);
    assert_eq!(stale, State::Unknown);
    assert_eq!(stage.state(id).await, State::Ready);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_cannot_be_asked_for_a_minute_is_ended() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    stage.weather.always(Call::Ping, hangs());
    stage.weather.always(Call::Probe, hangs());

    let ended = stage.until(id, 120 * SECOND, |sandbox| sandbox.is_settled()).await;

    assert_eq!(
        stage.times(id, |fact| *fact == Fact::EndDecided { cause: Cause::ProviderError }).await.len(),
        1
    );
    assert_eq!(ended.generation(), Generation(1));
    stage.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_makes_a_new_body_after_the_old_one_is_gone() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    stage.weather.next(Call::Stop, slow(3 * SECOND));

    engine.restart(id, Cause::StoppedByUser).await.unwrap();
    stage.until(id, 10 * SECOND, |sandbox| sandbox.generation() == Generation(2)).await;
    stage.wait_ready(&engine, id).await.unwrap();

    assert_eq!(stage.times(id, is_ready).await, [0, 3 * SECOND]);
    assert_eq!(stage.bodies().len(), 1);
    assert_eq!(stage.state(id).await, State::Ready);
}

fn is_launched(fact: &Fact) -> bool {
    matches!(fact, Fact::Launched { .. })
}

fn is_ready(fact: &Fact) -> bool {
    matches!(fact, Fact::BecameReady { .. })
}
