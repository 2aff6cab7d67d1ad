//! Probes, looks, doubt, idleness and the end of a long life.

use super::*;

fn broken_files() -> Probed {
    Probed::Failed(ProbeFailure::Files { why: "/home is not mounted".into() })
}

#[test]
fn old_evidence_shows_as_unknown() {
    let mut scene = Scene::live(Policy::default());

    scene.now = scene.now.after_ms(30_000);
    let at_thirty = scene.status();
    scene.now = scene.now.after_ms(1);

    assert_eq!(at_thirty, State::Ready);
    assert_eq!(scene.status(), State::Unknown);
}

#[test]
fn a_failed_ping_leads_to_a_full_probe() {
    let mut scene = Scene::live(Policy::default());
    scene.wait_ms(15_000);

    let routine = scene.work();
    scene.probed(Probed::Unknown { why: "no answer".into() });

    assert_eq!(routine, [EffectKind::Ping]);
    assert_eq!(scene.work(), [EffectKind::Probe]);
    assert_eq!(scene.status(), State::Ready);
}

#[test]
fn an_unhealthy_young_sandbox_is_flagged_and_looked_at() {
    let mut scene = Scene::live(Policy::default());
    scene.wait_ms(15_000);
    scene.probed(broken_files());

    scene.probed(broken_files());

    assert_eq!(scene.status(), State::Unhealthy);
    assert_eq!(scene.work(), [EffectKind::Look]);
}

#[test]
fn an_unhealthy_sandbox_is_probed_again_and_a_ping_does_not_make_it_healthy() {
    let mut scene = Scene::live(Policy::default());
    scene.wait_ms(15_000);
    scene.probed(broken_files());
    scene.probed(broken_files());
    scene.looked(present(vec![body(1, vec![])]));

    scene.wait_ms(15_000);

    assert_eq!((scene.work(), scene.status()), (vec![EffectKind::Probe], State::Unhealthy));
}

#[test]
fn an_unhealthy_old_sandbox_is_ended() {
    let mut scene = Scene::live(Policy { idle_ms: None, ..Policy::default() });
    scene.wait_ms(600_000);
    scene.probed(broken_files());

    scene.probed(broken_files());

    assert_eq!(scene.cause(), Some(Cause::ProbeFailed));
}

#[test]
fn a_sandbox_that_passes_again_is_healthy_again() {
    let mut scene = Scene::live(Policy::default());
    scene.wait_ms(15_000);
    scene.probed(broken_files());
    scene.probed(broken_files());
    scene.looked(present(vec![body(1, vec![])]));

    scene.wait_ms(15_000);
    scene.probed(Probed::Passed);

    assert_eq!(scene.status(), State::Ready);
    assert!(scene.has(|fact| *fact == Fact::BecameHealthy));
}

#[test]
fn whoever_tried_it_and_saw_otherwise_causes_a_probe_and_only_that_decides() {
    let mut scene = Scene::live(Policy::default());

    scene.tell(Event::Disagreed { why: "a mount is missing".into() });
    let (work, before) = (scene.work(), scene.status());
    scene.probed(broken_files());

    assert_eq!((work, before), (vec![EffectKind::Probe], State::Ready));
    assert_eq!(scene.status(), State::Unhealthy);
}

#[test]
fn doubt_that_lasts_ends_the_sandbox() {
    let mut scene = Scene::live(Policy::default());
    scene.tell(Event::Doubted { why: "a mount is missing".into() });
    scene.looked(unknown());

    let mut lasted_ms = 0;
    while matches!(scene.sandbox.life, Life::Wanted) {
        let next = scene.sandbox.next_deadline().unwrap();
        lasted_ms += next.ms_since(scene.now);
        scene.wait_ms(next.ms_since(scene.now));
    }

    assert_eq!(scene.cause(), Some(Cause::ProviderError));
    assert!((60_000..70_000).contains(&lasted_ms), "{lasted_ms}");
}

#[test]
fn a_body_that_its_own_deadline_has_ended_was_not_broken() {
    let mut scene = Scene::live(Policy::default());
    scene.tell(Event::Doubted { why: "its keeper does not answer".into() });
    scene.now = scene.sandbox.expires_at;

    scene.looked(present(vec![BodySeen { whole: false, ..body(1, vec![]) }]));

    assert_eq!(scene.cause(), Some(Cause::MaxLife));
}

#[test]
fn a_body_that_is_gone_is_lost_and_its_executions_with_it() {
    let id = ExecutionId(1);
    let mut scene = Scene::running(Policy::default(), id, ExecutionLimits::default());
    scene.tell(Event::Doubted { why: "its cgroup is empty".into() });

    scene.looked(absent());

    assert_eq!(scene.cause(), Some(Cause::Lost));
    assert!(scene.sandbox.is_settled());
    assert_eq!(scene.outcome(id), Some((OutcomeKind::Lost, Cause::Lost)));
}

#[test]
fn a_sandbox_without_work_is_idle_after_a_while() {
    let mut scene = Scene::live(Policy { probe_every_ms: 86_400_000, ..Policy::default() });

    scene.wait_ms(600_000);
    scene.looked(present(vec![body(1, vec![])]));

    assert_eq!(scene.cause(), Some(Cause::Idle));
}

#[test]
fn a_sandbox_that_used_its_cpu_is_not_idle() {
    let mut scene = Scene::live(Policy { probe_every_ms: 86_400_000, ..Policy::default() });

    scene.wait_ms(600_000);
    let busy = BodySeen { last_busy_at: Some(scene.now), ..body(1, vec![]) };
    scene.looked(present(vec![busy]));

    assert_eq!(scene.sandbox.life, Life::Wanted);
    assert_eq!(scene.sandbox.next_deadline(), Some(scene.now.after_ms(600_000)));
}

#[test]
fn a_sandbox_that_is_kept_alive_is_idle_later() {
    let mut scene = Scene::live(Policy { probe_every_ms: 86_400_000, ..Policy::default() });
    scene.wait_ms(500_000);

    scene.ask(Request::KeepAlive).unwrap();

    assert_eq!(scene.sandbox.next_deadline(), Some(scene.now.after_ms(600_000)));
}

#[test]
fn no_sandbox_outlives_its_maximum_life() {
    let id = ExecutionId(1);
    let mut scene = Scene::running(Policy::default(), id, ExecutionLimits::default());

    scene.wait_ms(86_400_000);
    scene.stopped(gone());

    assert_eq!(scene.cause(), Some(Cause::MaxLife));
    assert_eq!(scene.outcome(id), Some((OutcomeKind::TimedOut, Cause::MaxLife)));
}
