//! Stops that prove nothing: tried again with patience, then quarantined and looked at, never given up on and
//! never believed.

use pinfold_engine::{ApplyError, Stop};
use pinfold_lifecycle::{
    Cause, ExecutionKind, ExecutionLimits, Fact, Finding, Lease, Policy, Refusal, SandboxId, State,
};
use pinfold_provider::fake::{Call, Fault};
use pinfold_store::Store;

use crate::seams::{fault, hangs};
use crate::stage::{MINUTE, SECOND, Stage, body_of, words};

/// When the attempts of the default policy begin: 5 s, 10 s, 30 s and 2 min lie between them.
const ATTEMPTS: [u64; 5] = [0, 5 * SECOND, 15 * SECOND, 45 * SECOND, 165 * SECOND];

async fn attempts(stage: &Stage, id: SandboxId) -> Vec<u64> {
    stage.times(id, |fact| matches!(fact, Fact::StopBegan { .. })).await
}

fn is_quarantined(sandbox: &pinfold_lifecycle::Sandbox) -> bool {
    matches!(sandbox.lease, Lease::Quarantined { .. })
}

#[tokio::test(start_paused = true)]
async fn a_stop_whose_look_fails_is_tried_again_with_growing_waits_and_then_quarantined() {
    let stage = Stage::new();
    let engine = stage.begin_patient().await;
    let id = stage.ready(&engine, Policy::default()).await;
    stage.weather.always(Call::Stop, fault(Fault::LookFails));

    let stop = engine.stop(id, Cause::StoppedByUser, false, 30 * SECOND).await.unwrap();
    let meanwhile = stage.state(id).await;
    stage.until(id, 10 * MINUTE, is_quarantined).await;

    assert_eq!(stop, Stop::Pending);
    assert_eq!(meanwhile, State::Terminating);
    assert_eq!(attempts(&stage, id).await, ATTEMPTS);
    assert_eq!(stage.times(id, |fact| matches!(fact, Fact::Quarantined { .. })).await, [ATTEMPTS[4]]);
    assert_eq!(stage.store.totals().await.unwrap().present(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_never_answers_fails_at_each_attempts_deadline() {
    let stage = Stage::new();
    let engine = stage.begin_patient().await;
    let id = stage.ready(&engine, Policy::default()).await;
    stage.weather.always(Call::Stop, hangs());

    stage.ask_to_stop(&engine, id).await;
    stage.until(id, 20 * MINUTE, is_quarantined).await;

    let expected = [0, 50, 105, 180, 345].map(|seconds| seconds * SECOND);
    assert_eq!(attempts(&stage, id).await, expected);
}

#[tokio::test(start_paused = true)]
async fn what_is_quarantined_is_looked_at_every_ten_minutes_and_freed_when_a_look_proves_absence() {
    let stage = Stage::new();
    let engine = stage.begin_patient().await;
    let id = stage.ready(&engine, Policy::default()).await;
    stage.weather.always(Call::Stop, fault(Fault::Fails));
    stage.ask_to_stop(&engine, id).await;
    let quarantined = stage.until(id, 10 * MINUTE, is_quarantined).await;

    stage.pass_ms(11 * MINUTE).await;
    let still = stage.state(id).await;
    stage.world.kill_body(body_of(&quarantined), false);
    stage.until(id, 10 * MINUTE, |sandbox| sandbox.is_settled()).await;

    let looks = stage.times(id, |fact| matches!(fact, Fact::LookedInQuarantine { .. })).await;
    assert_eq!(still, State::Quarantined);
    assert_eq!(looks, [ATTEMPTS[4] + 10 * MINUTE]);
    assert_eq!(stage.times(id, |fact| matches!(fact, Fact::Ended { .. })).await, [ATTEMPTS[4] + 20 * MINUTE]);
    assert_eq!(stage.weather.calls(Call::Stop), 5);
    stage.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_look_that_fails_frees_nothing_in_quarantine() {
    let stage = Stage::new();
    let engine = stage.begin_patient().await;
    let id = stage.ready(&engine, Policy { stop_attempts: 1, ..Policy::default() }).await;
    stage.weather.next(Call::Stop, fault(Fault::LookFails));
    stage.weather.always(Call::Observe, fault(Fault::LookFails));
    stage.ask_to_stop(&engine, id).await;

    stage.pass_ms(35 * MINUTE).await;

    assert_eq!(stage.state(id).await, State::Quarantined);
    assert_eq!(stage.bodies(), []);
    assert_eq!(stage.store.totals().await.unwrap().present(), 1);
}

#[tokio::test(start_paused = true)]
async fn asking_again_does_not_begin_the_backoff_anew() {
    let stage = Stage::new();
    let (engine, other) = (stage.begin_patient().await, stage.begin_patient().await);
    let id = stage.ready(&engine, Policy::default()).await;
    stage.weather.always(Call::Stop, fault(Fault::LookFails));

    for _ in 0..150 {
        stage.ask_to_stop(&engine, id).await;
        other.forget(id).await.unwrap();
        stage.pass_ms(SECOND).await;
    }
    stage.until(id, 10 * MINUTE, is_quarantined).await;

    assert_eq!(attempts(&stage, id).await, ATTEMPTS);
}

#[tokio::test(start_paused = true)]
async fn the_backoff_survives_the_engine_that_began_it() {
    let stage = Stage::new();
    let engine = stage.begin_patient().await;
    let id = stage.ready(&engine, Policy::default()).await;
    stage.weather.always(Call::Stop, fault(Fault::LookFails));
    stage.ask_to_stop(&engine, id).await;

    stage.pass_ms(20 * SECOND).await;
    stage.crash(engine);
    let _next = stage.begin_patient().await;
    stage.until(id, 10 * MINUTE, is_quarantined).await;

    assert_eq!(attempts(&stage, id).await, ATTEMPTS);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_still_there_after_the_kill_is_not_called_gone() {
    let stage = Stage::new();
    let engine = stage.begin_patient().await;
    let id = stage.ready(&engine, Policy::default()).await;
    stage.weather.next(Call::Stop, fault(Fault::HalfDone));

    let at_first = engine.stop(id, Cause::StoppedByUser, false, SECOND).await.unwrap();
    let in_the_end = stage.stop(&engine, id).await;

    assert_eq!(at_first, Stop::Pending);
    assert!(matches!(in_the_end, Stop::Gone { cause: Cause::StoppedByUser, .. }));
    assert_eq!(attempts(&stage, id).await, ATTEMPTS[..2]);
    stage.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn an_attestation_frees_what_is_quarantined_and_says_who_gave_it() {
    let stage = Stage::new();
    let engine = stage.begin_patient().await;
    let id = stage.ready(&engine, Policy { stop_attempts: 1, ..Policy::default() }).await;
    stage.weather.always(Call::Stop, fault(Fault::LookFails));
    stage.weather.always(Call::Observe, fault(Fault::LookFails));
    let attest = || engine.attest(id, "ada".into(), "the host burnt down".into());
    let too_early = attest().await;
    stage.ask_to_stop(&engine, id).await;
    stage.until(id, SECOND, is_quarantined).await;

    attest().await.unwrap();

    assert!(matches!(too_early, Err(ApplyError::Refused(Refusal::NotQuarantined))));
    let Stop::Gone { receipt, .. } = stage.stop(&engine, id).await else {
        panic!("not gone");
    };
    assert_eq!(receipt.attested.unwrap().by, "ada");
    assert!(receipt.checks.iter().all(|check| check.result == Finding::Unknown));
    assert_eq!(stage.store.totals().await.unwrap().attested, 1);
    stage.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn forgetting_a_live_sandbox_completes_by_itself_and_a_second_wish_drives_the_same_one() {
    let stage = Stage::new();
    let engine = stage.begin_patient().await;
    let id = stage.ready(&engine, Policy::default()).await;
    stage.weather.next(Call::Stop, fault(Fault::LookFails));
    stage.weather.next(Call::Stop, fault(Fault::LookFails));

    engine.forget(id).await.unwrap();
    stage.pass_ms(SECOND).await;
    let meanwhile = stage.state(id).await;
    engine.forget(id).await.unwrap();
    let work = engine.execute(id, words("true"), ExecutionKind::Run, ExecutionLimits::default(), true).await;
    stage.pass_ms(15 * SECOND).await;

    assert_eq!(meanwhile, State::Terminating);
    assert!(matches!(work, Err(ApplyError::Refused(Refusal::Ending { cause: Cause::StoppedByUser }))));
    assert!(stage.store.load(id).await.unwrap().is_none());
    assert_eq!(attempts(&stage, id).await, ATTEMPTS[..3]);
    assert!(matches!(engine.forget(id).await, Err(ApplyError::Missing)));
    stage.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_second_delete_after_a_crash_in_the_first_drives_it_to_its_proof() {
    let stage = Stage::new();
    let engine = stage.begin_patient().await;
    let id = stage.ready(&engine, Policy::default()).await;
    stage.weather.next(Call::Stop, hangs());
    engine.forget(id).await.unwrap();
    stage.pass_ms(SECOND).await;
    stage.crash(engine);

    let next = stage.begin_patient().await;
    next.forget(id).await.unwrap();
    stage.pass_ms(5 * SECOND).await;

    assert!(stage.store.load(id).await.unwrap().is_none());
    stage.assert_nothing_is_left().await;
}
