//! Starting a sandbox: probed before it is ready, retried where that helps, and bounded.

use pinfold_engine::WaitOutcome;
use pinfold_lifecycle::{Cause, Fact, Generation, Lease, Policy, State};
use pinfold_provider::fake::{Call, Fault};

use crate::fakes::{START, answered_after, fault, halfway, hangs, slow};
use crate::fixture::{Fixture, SECOND};

#[tokio::test(start_paused = true)]
async fn a_sandbox_becomes_ready_only_after_its_probe_passed() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    fixture.faults.next(Call::Probe, answered_after(3 * SECOND));

    let id = fixture.create(&engine, Policy::default()).await;
    fixture.pass_ms(2 * SECOND).await;
    let before = fixture.state(id).await;
    fixture.wait_ready(&engine, id).await.unwrap();

    assert_eq!(before, State::Provisioning);
    assert_eq!(fixture.state(id).await, State::Ready);
    assert_eq!(fixture.times(id, is_launched).await, [0]);
    assert_eq!(fixture.times(id, is_ready).await, [3 * SECOND]);
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_fails_its_probe_is_replaced_by_a_later_generation() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    fixture.faults.next(Call::Probe, fault(Fault::Fails));

    let id = fixture.ready(&engine, Policy::default()).await;

    assert_eq!(fixture.sandbox(id).await.generation(), Generation(2));
    assert_eq!(fixture.instances().len(), 1);
    assert_eq!(fixture.instances()[0].instance.generation, Generation(2));
}

#[tokio::test(start_paused = true)]
async fn a_failed_launch_is_retried_with_a_higher_generation() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    fixture.faults.next(Call::Start, fault(Fault::Fails));
    fixture.faults.next(Call::Start, fault(Fault::HalfDone));

    let id = fixture.ready(&engine, Policy::default()).await;

    assert_eq!(fixture.sandbox(id).await.generation(), Generation(3));
    assert_eq!(fixture.instances().len(), 1);
    fixture.assert_sum().await;
}

#[tokio::test(start_paused = true)]
async fn a_failing_launch_is_attempted_as_often_as_the_policy_says() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    fixture.faults.always(Call::Start, fault(Fault::HalfDone));

    let id = fixture.create(&engine, Policy { launches: 4, ..Policy::default() }).await;
    let waited = fixture.wait_ready(&engine, id).await;
    fixture.stop(&engine, id).await;

    assert_eq!(waited, Err(Cause::StartFailed));
    assert_eq!(fixture.faults.calls(Call::Start), 4);
    assert_eq!(fixture.times(id, |fact| matches!(fact, Fact::LaunchBegan { .. })).await.len(), 4);
    assert_eq!(fixture.state(id).await, State::Failed);
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_hanging_launch_ends_at_the_start_deadline_and_its_stop_is_committed_before_it_is_reported() {
    for launch in [hangs(), halfway(hangs().before_ms), answered_after(hangs().before_ms)] {
        let fixture = Fixture::new();
        let engine = fixture.start_engine().await;
        fixture.faults.next(Call::Start, launch);
        let id = fixture.create(&engine, Policy::default()).await;

        let waited = fixture.wait_ready(&engine, id).await;
        let (told_at, lease) = (fixture.now(), fixture.sandbox(id).await.lease);
        fixture.stop(&engine, id).await;

        assert_eq!(waited, Err(Cause::StartDeadline));
        assert_eq!(told_at, 60 * SECOND);
        assert!(matches!(lease, Lease::Stopping { .. } | Lease::Free { .. }), "{lease:?}");
        fixture.assert_nothing_is_left().await;
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_for_readiness_past_the_deadline_changes_nothing() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    fixture.faults.next(Call::Start, slow(20 * SECOND));
    let id = fixture.create(&engine, Policy::default()).await;

    let waited = engine.wait_ready(id, START.after_ms(7 * SECOND)).await.unwrap();
    let passed_at = fixture.now();

    assert_eq!(waited, WaitOutcome::DeadlinePassed);
    assert_eq!(passed_at, 7 * SECOND);
    assert_eq!(fixture.wait_ready(&engine, id).await, Ok(()));
    assert_eq!(fixture.now(), 20 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn expired_evidence_is_not_shown_as_ready() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    fixture.faults.always(Call::Ping, hangs());
    fixture.faults.always(Call::Probe, hangs());

    fixture.pass_ms(14 * SECOND).await;
    let fresh = fixture.state(id).await;
    fixture.pass_ms(17 * SECOND).await;
    let stale = fixture.state(id).await;
    fixture.faults.clear();
    fixture.pass_ms(10 * SECOND).await;

    assert_eq!(fresh, State::Ready);
    assert_eq!(stale, State::Unknown);
    assert_eq!(fixture.state(id).await, State::Ready);
}

#[tokio::test(start_paused = true)]
async fn an_instance_unreachable_for_a_minute_is_ended() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    fixture.faults.always(Call::Ping, hangs());
    fixture.faults.always(Call::Probe, hangs());

    let ended = fixture.until(id, 120 * SECOND, |sandbox| sandbox.is_settled()).await;

    assert_eq!(
        fixture.times(id, |fact| *fact == Fact::EndDecided { cause: Cause::ProviderError }).await.len(),
        1
    );
    assert_eq!(ended.generation(), Generation(1));
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_starts_a_new_instance_after_the_old_one_is_gone() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    fixture.faults.next(Call::Stop, slow(3 * SECOND));

    engine.restart(id, Cause::StoppedByUser).await.unwrap();
    fixture.until(id, 10 * SECOND, |sandbox| sandbox.generation() == Generation(2)).await;
    fixture.wait_ready(&engine, id).await.unwrap();

    assert_eq!(fixture.times(id, is_ready).await, [0, 3 * SECOND]);
    assert_eq!(fixture.instances().len(), 1);
    assert_eq!(fixture.state(id).await, State::Ready);
}

fn is_launched(fact: &Fact) -> bool {
    matches!(fact, Fact::Launched { .. })
}

fn is_ready(fact: &Fact) -> bool {
    matches!(fact, Fact::BecameReady { .. })
}
