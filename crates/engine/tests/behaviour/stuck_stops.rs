//! Stops without proof: retried with backoff, then quarantined and observed, never abandoned and never assumed
//! done.

use pinfold_engine::{ApplyError, StopProgress};
use pinfold_lifecycle::{
    Cause, ExecutionKind, ExecutionLimits, Fact, Finding, Lease, Policy, Refusal, SandboxId, State,
};
use pinfold_provider::fake::{Call, Fault};
use pinfold_store::Store;

use crate::fakes::{fault, hangs};
use crate::fixture::{Fixture, MINUTE, SECOND, instance_of, words};

/// Start times of the stop attempts under the default policy, with backoffs of 5 s, 10 s, 30 s and 2 min.
const ATTEMPTS: [u64; 5] = [0, 5 * SECOND, 15 * SECOND, 45 * SECOND, 165 * SECOND];

async fn attempts(fixture: &Fixture, id: SandboxId) -> Vec<u64> {
    fixture.times(id, |fact| matches!(fact, Fact::StopBegan { .. })).await
}

fn is_quarantined(sandbox: &pinfold_lifecycle::Sandbox) -> bool {
    matches!(sandbox.lease, Lease::Quarantined { .. })
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_cannot_observe_is_retried_with_backoff_and_then_quarantined() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_slow_poll().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    fixture.faults.always(Call::Stop, fault(Fault::ObserveFails));

    let stop = engine.stop(id, Cause::StoppedByUser, None, 30 * SECOND).await.unwrap();
    let meanwhile = fixture.state(id).await;
    fixture.until(id, 10 * MINUTE, is_quarantined).await;

    assert_eq!(stop, StopProgress::Pending);
    assert_eq!(meanwhile, State::Terminating);
    assert_eq!(attempts(&fixture, id).await, ATTEMPTS);
    assert_eq!(fixture.times(id, |fact| matches!(fact, Fact::Quarantined { .. })).await, [ATTEMPTS[4]]);
    assert_eq!(fixture.store.totals().await.unwrap().present(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_never_answers_fails_at_each_attempts_deadline() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_slow_poll().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    fixture.faults.always(Call::Stop, hangs());

    fixture.request_stop(&engine, id).await;
    fixture.until(id, 20 * MINUTE, is_quarantined).await;

    let expected = [0, 50, 105, 180, 345].map(|seconds| seconds * SECOND);
    assert_eq!(attempts(&fixture, id).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_quarantined_sandbox_is_observed_every_ten_minutes_and_freed_when_absence_is_proven() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_slow_poll().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    fixture.faults.always(Call::Stop, fault(Fault::Fails));
    fixture.request_stop(&engine, id).await;
    let quarantined = fixture.until(id, 10 * MINUTE, is_quarantined).await;

    fixture.pass_ms(11 * MINUTE).await;
    let still = fixture.state(id).await;
    fixture.world.kill_instance(instance_of(&quarantined), false);
    fixture.until(id, 10 * MINUTE, |sandbox| sandbox.is_settled()).await;

    let looks = fixture.times(id, |fact| matches!(fact, Fact::ObservedInQuarantine { .. })).await;
    assert_eq!(still, State::Quarantined);
    assert_eq!(looks, [ATTEMPTS[4] + 10 * MINUTE]);
    assert_eq!(
        fixture.times(id, |fact| matches!(fact, Fact::Ended { .. })).await,
        [ATTEMPTS[4] + 20 * MINUTE]
    );
    assert_eq!(fixture.faults.calls(Call::Stop), 5);
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_observation_frees_nothing_in_quarantine() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_slow_poll().await;
    let id = fixture.ready(&engine, Policy { stop_attempts: 1, ..Policy::default() }).await;
    fixture.faults.next(Call::Stop, fault(Fault::ObserveFails));
    fixture.faults.always(Call::Observe, fault(Fault::ObserveFails));
    fixture.request_stop(&engine, id).await;

    fixture.pass_ms(35 * MINUTE).await;

    assert_eq!(fixture.state(id).await, State::Quarantined);
    assert_eq!(fixture.instances(), []);
    assert_eq!(fixture.store.totals().await.unwrap().present(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_repeated_request_does_not_reset_the_backoff() {
    let fixture = Fixture::new();
    let (engine, other) = (fixture.start_engine_slow_poll().await, fixture.start_engine_slow_poll().await);
    let id = fixture.ready(&engine, Policy::default()).await;
    fixture.faults.always(Call::Stop, fault(Fault::ObserveFails));

    for _ in 0..150 {
        fixture.request_stop(&engine, id).await;
        other.forget(id).await.unwrap();
        fixture.pass_ms(SECOND).await;
    }
    fixture.until(id, 10 * MINUTE, is_quarantined).await;

    assert_eq!(attempts(&fixture, id).await, ATTEMPTS);
}

#[tokio::test(start_paused = true)]
async fn the_backoff_survives_a_crash_of_its_engine() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_slow_poll().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    fixture.faults.always(Call::Stop, fault(Fault::ObserveFails));
    fixture.request_stop(&engine, id).await;

    fixture.pass_ms(20 * SECOND).await;
    fixture.crash(engine);
    let _next = fixture.start_engine_slow_poll().await;
    fixture.until(id, 10 * MINUTE, is_quarantined).await;

    assert_eq!(attempts(&fixture, id).await, ATTEMPTS);
}

#[tokio::test(start_paused = true)]
async fn an_instance_still_present_after_the_kill_is_not_gone() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_slow_poll().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    fixture.faults.next(Call::Stop, fault(Fault::HalfDone));

    let at_first = engine.stop(id, Cause::StoppedByUser, None, SECOND).await.unwrap();
    let in_the_end = fixture.stop(&engine, id).await;

    assert_eq!(at_first, StopProgress::Pending);
    assert!(matches!(in_the_end, StopProgress::Gone { cause: Cause::StoppedByUser, .. }));
    assert_eq!(attempts(&fixture, id).await, ATTEMPTS[..2]);
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn an_attestation_frees_a_quarantined_sandbox_and_names_its_author() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_slow_poll().await;
    let id = fixture.ready(&engine, Policy { stop_attempts: 1, ..Policy::default() }).await;
    fixture.faults.always(Call::Stop, fault(Fault::ObserveFails));
    fixture.faults.always(Call::Observe, fault(Fault::ObserveFails));
    let attest = || engine.attest(id, "ada".into(), "the host burnt down".into());
    let too_early = attest().await;
    fixture.request_stop(&engine, id).await;
    fixture.until(id, SECOND, is_quarantined).await;

    attest().await.unwrap();

    assert!(matches!(too_early, Err(ApplyError::Refused(Refusal::NotQuarantined))));
    let StopProgress::Gone { receipt, .. } = fixture.stop(&engine, id).await else {
        panic!("not gone");
    };
    assert_eq!(receipt.attested.unwrap().by, "ada");
    assert!(receipt.checks.iter().all(|check| check.result == Finding::Unknown));
    assert_eq!(fixture.store.totals().await.unwrap().attested, 1);
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn forgetting_a_live_sandbox_completes_in_the_background_and_a_second_request_joins_it() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_slow_poll().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    fixture.faults.next(Call::Stop, fault(Fault::ObserveFails));
    fixture.faults.next(Call::Stop, fault(Fault::ObserveFails));

    engine.forget(id).await.unwrap();
    fixture.pass_ms(SECOND).await;
    let meanwhile = fixture.state(id).await;
    engine.forget(id).await.unwrap();
    let work = engine.execute(id, words("true"), ExecutionKind::Run, ExecutionLimits::default(), true).await;
    fixture.pass_ms(15 * SECOND).await;

    assert_eq!(meanwhile, State::Terminating);
    assert!(matches!(work, Err(ApplyError::Refused(Refusal::Ending { cause: Cause::StoppedByUser }))));
    assert!(fixture.store.load(id).await.unwrap().is_none());
    assert_eq!(attempts(&fixture, id).await, ATTEMPTS[..3]);
    assert!(matches!(engine.forget(id).await, Err(ApplyError::Missing)));
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_second_delete_after_a_crash_in_the_first_drives_it_to_its_proof() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_slow_poll().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    fixture.faults.next(Call::Stop, hangs());
    engine.forget(id).await.unwrap();
    fixture.pass_ms(SECOND).await;
    fixture.crash(engine);

    let next = fixture.start_engine_slow_poll().await;
    next.forget(id).await.unwrap();
    fixture.pass_ms(5 * SECOND).await;

    assert!(fixture.store.load(id).await.unwrap().is_none());
    fixture.assert_nothing_is_left().await;
}
