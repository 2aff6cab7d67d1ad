//! Starts: from the request to a live instance, or to the reason for its failure.

use super::*;

#[test]
fn a_sandbox_is_ready_only_after_a_full_probe_passed() {
    let mut fixture = Fixture::created(Policy::default());

    fixture.launched();
    let before = fixture.status();
    fixture.probed(ProbeResult::Passed);

    assert_eq!(before, State::Provisioning);
    assert_eq!(fixture.status(), State::Ready);
}

#[test]
fn late_probe_result_proves_readiness_at_request_time_only() {
    let mut fixture = Fixture::live(Policy::default());
    fixture.wait_ms(15_000);
    let asked_at = fixture.now;

    fixture.now = fixture.now.after_ms(3_600_000);
    fixture.probed(ProbeResult::Passed);

    let shown = status(&fixture.sandbox, fixture.now, &fixture.policy);
    assert_eq!(shown.verified_at, Some(asked_at));
    assert_eq!(shown.state, State::Unknown);
}

#[test]
fn stop_during_the_start_stops_a_possible_instance() {
    let mut fixture = Fixture::created(Policy::default());
    let launch = fixture.pending(|kind| kind == EffectKind::Launch).fence;

    fixture.stop();

    assert_eq!(fixture.effect_kinds(), [EffectKind::Stop { grace_ms: 2_000 }]);
    assert!(!fixture.sandbox.permits_launch(launch));
    assert_eq!(fixture.status(), State::Terminating);
}

#[test]
fn launch_result_after_the_stop_is_recorded_and_changes_nothing() {
    let mut fixture = Fixture::created(Policy::default());
    let launch = fixture.pending(|kind| kind == EffectKind::Launch).fence;
    fixture.stop();
    let stopping = fixture.sandbox.clone();

    fixture.apply(Event::Launched { fence: launch });

    assert_eq!(fixture.sandbox, stopping);
    assert!(fixture.has(|fact| matches!(fact, Fact::LateAnswer { fence, .. } if *fence == launch)));
}

#[test]
fn a_failed_launch_is_stopped_before_the_next_one() {
    let mut fixture = Fixture::created(Policy::default());
    let fence = fixture.pending(|kind| kind == EffectKind::Launch).fence;

    fixture.apply(Event::LaunchFailed { fence, why: "no space left".into() });
    let meanwhile = fixture.effect_kinds();
    fixture.stopped(gone());

    assert_eq!(meanwhile, [EffectKind::Stop { grace_ms: 2_000 }]);
    assert_eq!(fixture.effect_kinds(), [EffectKind::Launch]);
    assert_eq!(fixture.sandbox.generation(), Generation(2));
}

#[test]
fn restart_launches_only_after_the_old_instance_is_proven_gone() {
    let mut fixture = Fixture::live(Policy::default());

    fixture.request(Request::Restart { cause: Cause::StoppedByUser }).unwrap();
    fixture.stopped(StopOutcome::Unknown { why: "no route".into() });
    fixture.wait_ms(5_000);
    let before_the_proof = fixture.sandbox.generation();
    fixture.stopped(gone());

    assert_eq!(before_the_proof, Generation(1));
    assert_eq!(fixture.sandbox.generation(), Generation(2));
    assert_eq!(fixture.effect_kinds(), [EffectKind::Launch]);
}

#[test]
fn launch_without_result_ends_the_sandbox_at_its_start_deadline() {
    let mut fixture = Fixture::created(Policy::default());

    fixture.wait_ms(59_999);
    let just_before = fixture.effect_kinds();
    fixture.wait_ms(1);
    fixture.stopped(gone());

    assert_eq!(just_before, [EffectKind::Launch]);
    assert_eq!(fixture.status(), State::Failed);
    assert_eq!(fixture.cause(), Some(Cause::StartDeadline));
}

#[test]
fn launches_are_limited() {
    let mut fixture = Fixture::created(Policy::default());

    for _ in 0..3 {
        let fence = fixture.pending(|kind| kind == EffectKind::Launch).fence;
        let why = "no space left".to_owned();
        fixture.apply(Event::LaunchFailed { fence, why });
        fixture.stopped(gone());
    }

    assert_eq!(fixture.cause(), Some(Cause::StartFailed));
    assert!(fixture.sandbox.is_settled());
}

#[test]
fn a_sandbox_that_accepts_no_work_in_time_is_stopped() {
    let mut fixture = Fixture::live(Policy { accept_ms: Some(10_000), ..Policy::default() });

    fixture.wait_ms(10_000);
    fixture.observed(present(vec![instance(1, vec![])]));

    assert_eq!(fixture.cause(), Some(Cause::StartDeadline));
}

#[test]
fn execution_whose_start_result_was_lost_counts_as_accepted_work() {
    let id = ExecutionId(1);
    let mut fixture = Fixture::live(Policy { accept_ms: Some(10_000), ..Policy::default() });
    fixture.execute(id, ExecutionLimits::default());

    fixture.wait_ms(10_000);
    let running = ProcessObservation::Running { last_activity_at: fixture.now };
    fixture.observed(present(vec![instance(1, vec![(id, running)])]));

    assert_eq!(fixture.status(), State::Running);
    assert_eq!(fixture.effect_kinds(), [EffectKind::Watch { execution: id }]);
    assert!(fixture.has(|fact| matches!(fact, Fact::WorkAccepted { .. })));
}

#[test]
fn execution_being_cancelled_counts_as_accepted_work() {
    let id = ExecutionId(1);
    let mut fixture = Fixture::live(Policy { accept_ms: Some(5_000), ..Policy::default() });
    fixture.execute(id, ExecutionLimits::default());
    fixture.request(Request::Cancel { id, cause: Cause::Cancelled }).unwrap();

    fixture.wait_ms(5_000);
    let running = ProcessObservation::Running { last_activity_at: fixture.now };
    fixture.observed(present(vec![instance(1, vec![(id, running)])]));

    assert_eq!(fixture.sandbox.life, Life::Wanted);
    assert!(fixture.has(|fact| *fact == Fact::WorkAccepted { healed: true }));
}
