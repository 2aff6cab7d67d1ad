//! Stops: proof, backoff, quarantine, deletion of the row.

use super::*;

#[test]
fn stop_ends_with_proof_of_absence() {
    let mut fixture = Fixture::stopping(Policy::default());

    fixture.stopped(gone());

    assert_eq!(fixture.status(), State::Terminated);
    assert_eq!(fixture.cause(), Some(Cause::StoppedByUser));
    assert!(fixture.sandbox.is_settled());
}

#[test]
fn unknown_stop_result_never_frees_the_lease() {
    let mut fixture = Fixture::stopping(Policy::default());

    fixture.stopped(StopOutcome::Unknown { why: "no route".into() });

    assert!(!fixture.sandbox.lease.is_free());
    assert_eq!(fixture.status(), State::Terminating);
}

#[test]
fn receipt_without_absence_does_not_free_the_lease() {
    let mut fixture = Fixture::stopping(Policy::default());
    let StopOutcome::Gone(mut receipt) = gone() else { unreachable!() };
    receipt.checks[0].result = Finding::Unknown;

    fixture.stopped(StopOutcome::Gone(receipt));

    assert!(matches!(fixture.sandbox.lease, Lease::StopWaiting { .. }));
}

#[test]
fn stop_backoff_grows_and_its_last_step_repeats() {
    let mut fixture = Fixture::stopping(Policy { stop_attempts: 8, ..Policy::default() });

    let waits = std::iter::repeat_with(|| {
        fixture.stopped(StopOutcome::StillPresent { what: "a mount".into() });
        let Lease::StopWaiting { next_at, .. } = fixture.sandbox.lease else {
            panic!("{:?}", fixture.sandbox.lease)
        };
        let wait = next_at.ms_since(fixture.now);
        fixture.wait_ms(wait);
        wait
    });

    let seconds: Vec<_> = waits.take(6).map(|ms| ms / 1_000).collect();
    assert_eq!(seconds, [5, 10, 30, 120, 300, 300]);
}

#[test]
fn repeated_stop_or_forget_does_not_reset_the_backoff() {
    let mut fixture = Fixture::stopping(Policy::default());
    fixture.stopped(StopOutcome::StillPresent { what: "a mount".into() });
    fixture.wait_ms(1_000);
    let waiting = fixture.sandbox.lease.clone();

    fixture.stop();
    fixture.request(Request::Forget).unwrap();

    assert_eq!(fixture.sandbox.lease, waiting);
}

#[test]
fn stop_attempt_without_result_ends_at_its_deadline() {
    let mut fixture = Fixture::stopping(Policy::default());

    fixture.wait_ms(45_000);

    assert!(matches!(
        fixture.sandbox.lease,
        Lease::StopWaiting { attempts: 1, last: StopFailure::DeadlinePassed, .. }
    ));
}

#[test]
fn exhausted_stop_attempts_lead_to_quarantine() {
    let mut fixture = Fixture::stopping(Policy::default());

    for wait_ms in [5_000, 10_000, 30_000, 120_000, 0] {
        fixture.stopped(StopOutcome::StillPresent { what: "a mount".into() });
        fixture.wait_ms(wait_ms);
    }

    assert_eq!(fixture.status(), State::Quarantined);
    assert_eq!(fixture.effect_kinds(), []);
}

#[test]
fn observation_of_absence_frees_a_quarantined_lease() {
    let mut fixture = Fixture::quarantined();

    fixture.wait_ms(600_000);
    fixture.observed(unknown());
    let after_no_answer = fixture.status();
    fixture.wait_ms(600_000);
    fixture.observed(absent());

    assert_eq!(after_no_answer, State::Quarantined);
    assert_eq!(fixture.status(), State::Terminated);
}

#[test]
fn an_attestation_frees_and_its_receipt_stays_unknown() {
    let mut fixture = Fixture::quarantined();

    fixture.request(Request::Attest { by: "ops".into(), reason: "the host was scrapped".into() }).unwrap();

    let Life::Ended { receipt, .. } = &fixture.sandbox.life else { panic!("{:?}", fixture.sandbox.life) };
    assert_eq!(receipt.attested.as_ref().unwrap().by, "ops");
    assert!(!receipt.proves_absence());
}

#[test]
fn only_a_quarantined_sandbox_can_be_attested() {
    let mut fixture = Fixture::stopping(Policy::default());

    let refusal = fixture.request(Request::Attest { by: "ops".into(), reason: "I am sure".into() });

    assert_eq!(refusal, Err(Refusal::NotQuarantined));
}

#[test]
fn stop_in_quarantine_triggers_one_observation() {
    let mut fixture = Fixture::quarantined();

    fixture.stop();
    let look = fixture.pending(|kind| kind == EffectKind::Observe);
    fixture.stop();

    assert_eq!(fixture.effect_kinds(), [EffectKind::Observe]);
    assert_eq!(fixture.pending(|kind| kind == EffectKind::Observe), look);
}

#[test]
fn forced_stop_in_quarantine_gets_one_more_attempt() {
    let mut fixture = Fixture::quarantined();
    let insist = Request::Stop { cause: Cause::StoppedByUser, grace_ms: Some(0) };

    fixture.request(insist.clone()).unwrap();
    let attempt = fixture.effect_kinds();
    fixture.stopped(StopOutcome::StillPresent { what: "a mount".into() });
    let after_it_failed = fixture.status();
    fixture.request(insist).unwrap();
    fixture.stopped(gone());

    assert_eq!(attempt, [EffectKind::Stop { grace_ms: 0 }]);
    assert_eq!(after_it_failed, State::Quarantined);
    assert_eq!(fixture.status(), State::Terminated);
}

#[test]
fn forced_stop_skips_the_grace_period_and_keeps_the_attempt() {
    let mut fixture = Fixture::stopping(Policy::default());
    fixture.wait_ms(1_000);
    let deadline = fixture.pending(|_| true).deadline;

    fixture.request(Request::Stop { cause: Cause::StoppedByUser, grace_ms: Some(0) }).unwrap();

    assert_eq!(fixture.effect_kinds(), [EffectKind::Stop { grace_ms: 0 }]);
    assert_eq!(fixture.pending(|_| true).deadline, deadline);
    assert!(matches!(fixture.sandbox.lease, Lease::Stopping { attempt: 1, .. }));
}

#[test]
fn stop_with_a_grace_period_of_its_own_uses_it_and_a_second_stop_does_not_lengthen_it() {
    let mut fixture = Fixture::live(Policy::default());

    fixture.request(Request::Stop { cause: Cause::StoppedByUser, grace_ms: Some(700) }).unwrap();
    let first = fixture.effect_kinds();
    fixture.request(Request::Stop { cause: Cause::StoppedByUser, grace_ms: Some(9_000) }).unwrap();

    assert_eq!(first, [EffectKind::Stop { grace_ms: 700 }]);
    assert_eq!(fixture.effect_kinds(), first);
}

#[test]
fn first_cause_is_kept() {
    let mut fixture = Fixture::stopping(Policy::default());

    fixture.request(Request::Stop { cause: Cause::Shutdown, grace_ms: Some(0) }).unwrap();
    fixture.stopped(gone());

    assert_eq!(fixture.cause(), Some(Cause::StoppedByUser));
}

#[test]
fn row_is_deleted_only_after_proof_of_absence() {
    let mut fixture = Fixture::live(Policy::default());

    fixture.request(Request::Forget).unwrap();
    let before = fixture.sandbox.is_to_be_forgotten();
    fixture.stopped(gone());

    assert!(!before);
    assert!(fixture.sandbox.is_to_be_forgotten());
}

#[test]
fn result_of_an_earlier_stop_attempt_is_recorded_and_changes_nothing() {
    let mut fixture = Fixture::stopping(Policy::default());
    let first = fixture.pending(|_| true).fence;
    fixture.wait_ms(45_000);
    fixture.wait_ms(5_000);
    let second = fixture.sandbox.clone();

    fixture.apply(Event::Stopped { fence: first, outcome: gone() });

    assert_eq!(fixture.sandbox, second);
    assert!(fixture.has(|fact| matches!(fact, Fact::LateAnswer { .. })));
}

#[test]
fn unreadable_row_is_quarantined_and_observed_at_once() {
    let policy = Policy::default();
    let ctx = Context { now: NOON, node: HERE, policy: &policy };
    let first = quarantine_unreadable(SandboxId(7), Generation(3), "bad json".into(), ctx);
    let mut fixture = Fixture::from(first, policy);

    fixture.wait_ms(0);

    assert_eq!(fixture.status(), State::Quarantined);
    assert_eq!(fixture.effect_kinds(), [EffectKind::Observe]);
}

#[test]
fn sandbox_leased_again_uses_fences_above_all_earlier_ones() {
    let policy = Policy::default();
    let ctx = Context { now: NOON, node: HERE, policy: &policy };
    let earlier = Fixture::stopping(Policy::default()).sandbox.last_fence;

    let unreadable = quarantine_unreadable(SandboxId(7), Generation(1), "bad json".into(), ctx);
    let orphan = lease_orphan(SandboxId(7), Generation(1), ctx);

    assert!(unreadable.sandbox.last_fence > earlier);
    assert!(orphan.sandbox.last_fence > earlier);
}

#[test]
fn every_final_state_has_a_cause() {
    let causes = [Cause::Idle, Cause::Completed, Cause::ProbeFailed, Cause::EvictedEmergency];

    for cause in causes {
        let mut fixture = Fixture::live(Policy::default());
        fixture.request(Request::Stop { cause, grace_ms: None }).unwrap();
        fixture.stopped(gone());

        assert!(matches!(fixture.status(), State::Completed | State::Failed | State::Terminated));
        assert_eq!(fixture.cause(), Some(cause));
    }
}
