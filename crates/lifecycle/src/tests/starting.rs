//! From the wish for a body to one that works, or to the reason why there is none.

use super::*;

#[test]
fn a_sandbox_is_ready_only_after_a_full_probe_passed() {
    let mut scene = Scene::created(Policy::default());

    scene.launched();
    let before = scene.status();
    scene.probed(Probed::Passed);

    assert_eq!(before, State::Provisioning);
    assert_eq!(scene.status(), State::Ready);
}

#[test]
fn a_probe_that_is_heard_of_late_proves_only_what_was_when_it_was_asked() {
    let mut scene = Scene::live(Policy::default());
    scene.wait_ms(15_000);
    let asked_at = scene.now;

    scene.now = scene.now.after_ms(3_600_000);
    scene.probed(Probed::Passed);

    let shown = status(&scene.sandbox, scene.now, &scene.policy);
    assert_eq!(shown.verified_at, Some(asked_at));
    assert_eq!(shown.state, State::Unknown);
}

#[test]
fn a_stop_during_the_start_stops_what_may_have_been_made() {
    let mut scene = Scene::created(Policy::default());
    let launch = scene.duty(|work| work == EffectKind::Launch).ticket;

    scene.stop();

    assert_eq!(scene.work(), [EffectKind::Stop { grace_ms: 5_000 }]);
    assert!(!scene.sandbox.permits_launch(launch));
    assert_eq!(scene.status(), State::Terminating);
}

#[test]
fn a_launch_that_is_heard_of_after_the_stop_changes_nothing_and_is_recorded() {
    let mut scene = Scene::created(Policy::default());
    let launch = scene.duty(|work| work == EffectKind::Launch).ticket;
    scene.stop();
    let stopping = scene.sandbox.clone();

    scene.tell(Event::Launched { ticket: launch });

    assert_eq!(scene.sandbox, stopping);
    assert!(scene.has(|fact| matches!(fact, Fact::LateAnswer { ticket, .. } if *ticket == launch)));
}

#[test]
fn a_failed_launch_is_stopped_before_the_next_one() {
    let mut scene = Scene::created(Policy::default());
    let ticket = scene.duty(|work| work == EffectKind::Launch).ticket;

    scene.tell(Event::LaunchFailed { ticket, why: "no space left".into() });
    let meanwhile = scene.work();
    scene.stopped(gone());

    assert_eq!(meanwhile, [EffectKind::Stop { grace_ms: 5_000 }]);
    assert_eq!(scene.work(), [EffectKind::Launch]);
    assert_eq!(scene.sandbox.generation(), Generation(2));
}

#[test]
fn a_restart_launches_only_after_the_old_body_is_proven_gone() {
    let mut scene = Scene::live(Policy::default());

    scene.ask(Request::Restart { cause: Cause::StoppedByUser }).unwrap();
    scene.stopped(StopOutcome::Unknown { why: "no route".into() });
    scene.wait_ms(5_000);
    let before_the_proof = scene.sandbox.generation();
    scene.stopped(gone());

    assert_eq!(before_the_proof, Generation(1));
    assert_eq!(scene.sandbox.generation(), Generation(2));
    assert_eq!(scene.work(), [EffectKind::Launch]);
}

#[test]
fn a_launch_without_an_answer_ends_the_sandbox_at_its_start_deadline() {
    let mut scene = Scene::created(Policy::default());

    scene.wait_ms(59_999);
    let just_before = scene.work();
    scene.wait_ms(1);
    scene.stopped(gone());

    assert_eq!(just_before, [EffectKind::Launch]);
    assert_eq!(scene.status(), State::Failed);
    assert_eq!(scene.cause(), Some(Cause::StartDeadline));
}

#[test]
fn launches_are_not_tried_for_ever() {
    let mut scene = Scene::created(Policy::default());

    for _ in 0..3 {
        let ticket = scene.duty(|work| work == EffectKind::Launch).ticket;
        let why = "no space left".to_owned();
        scene.tell(Event::LaunchFailed { ticket, why });
        scene.stopped(gone());
    }

    assert_eq!(scene.cause(), Some(Cause::StartFailed));
    assert!(scene.sandbox.is_settled());
}

#[test]
fn a_sandbox_that_accepts_no_work_in_time_is_stopped() {
    let mut scene = Scene::live(Policy { accept_ms: Some(10_000), ..Policy::default() });

    scene.wait_ms(10_000);
    scene.looked(present(vec![body(1, vec![])]));

    assert_eq!(scene.cause(), Some(Cause::StartDeadline));
}

#[test]
fn work_whose_acceptance_was_never_heard_of_is_accepted_at_the_deadline() {
    let id = ExecutionId(1);
    let mut scene = Scene::live(Policy { accept_ms: Some(10_000), ..Policy::default() });
    scene.execute(id, ExecutionLimits::default());

    scene.wait_ms(10_000);
    let running = Seen::Running { last_activity_at: scene.now };
    scene.looked(present(vec![body(1, vec![(id, running)])]));

    assert_eq!(scene.status(), State::Running);
    assert_eq!(scene.work(), [EffectKind::Watch { execution: id }]);
    assert!(scene.has(|fact| matches!(fact, Fact::WorkAccepted { .. })));
}

#[test]
fn work_that_is_being_cancelled_was_accepted_nevertheless() {
    let id = ExecutionId(1);
    let mut scene = Scene::live(Policy { accept_ms: Some(5_000), ..Policy::default() });
    scene.execute(id, ExecutionLimits::default());
    scene.ask(Request::Cancel { id, cause: Cause::Cancelled }).unwrap();

    scene.wait_ms(5_000);
    let running = Seen::Running { last_activity_at: scene.now };
    scene.looked(present(vec![body(1, vec![(id, running)])]));

    assert_eq!(scene.sandbox.life, Life::Wanted);
    assert!(scene.has(|fact| *fact == Fact::WorkAccepted { healed: true }));
}
