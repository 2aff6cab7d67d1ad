//! What a dead node leaves, and what the next one makes of it.

use super::*;

fn adopted(mut scene: Scene) -> Scene {
    scene.node = ELSEWHERE;
    scene.ask(Request::Adopt { dead: HERE, rebooted: false }).unwrap();
    scene
}

#[test]
fn a_launch_of_a_dead_node_is_not_permitted_any_more() {
    let scene = Scene::created(Policy::default());
    let launch = scene.duty(|work| work == EffectKind::Launch).ticket;

    let scene = adopted(scene);

    assert!(!scene.sandbox.permits_launch(launch));
    assert_eq!(scene.work(), [EffectKind::Look]);
    assert_eq!(scene.sandbox.owner, ELSEWHERE);
}

#[test]
fn the_one_whole_body_that_was_leased_is_used_again() {
    let mut scene = adopted(Scene::created(Policy::default()));

    scene.looked(present(vec![body(1, vec![])]));
    scene.probed(Probed::Passed);

    assert_eq!(scene.status(), State::Ready);
    assert_eq!(scene.sandbox.generation(), Generation(1));
}

#[test]
fn anything_but_the_leased_body_is_stopped_first() {
    let half = BodySeen { whole: false, ..body(1, vec![]) };
    let findings = [vec![half], vec![body(2, vec![])], vec![body(1, vec![]), body(1, vec![])]];

    for found in findings {
        let mut scene = adopted(Scene::created(Policy::default()));
        scene.looked(present(found));

        assert_eq!(scene.work(), [EffectKind::Stop { grace_ms: 5_000 }]);
    }
}

#[test]
fn a_launch_that_made_nothing_is_tried_again() {
    let mut scene = adopted(Scene::created(Policy::default()));

    scene.looked(absent());

    assert_eq!(scene.work(), [EffectKind::Launch]);
    assert_eq!(scene.sandbox.generation(), Generation(2));
}

#[test]
fn a_stop_goes_on_with_its_attempt_and_its_deadline() {
    let scene = Scene::stopping(Policy::default());
    let before = scene.duty(|_| true);

    let scene = adopted(scene);

    let after = scene.duty(|_| true);
    assert!(matches!(scene.sandbox.lease, Lease::Stopping { attempt: 1, .. }));
    assert_eq!(after.deadline, before.deadline);
    assert_eq!(after.by, ELSEWHERE);
}

#[test]
fn an_execution_whose_process_cannot_be_proven_alive_is_lost() {
    let id = ExecutionId(1);
    let mut scene = adopted(Scene::running(Policy::default(), id, ExecutionLimits::default()));

    scene.looked(present(vec![body(1, vec![])]));

    assert_eq!(scene.outcome(id), Some((OutcomeKind::Lost, Cause::Lost)));
    assert_eq!(scene.sandbox.life, Life::Wanted);
}

#[test]
fn an_execution_that_ended_while_nobody_watched_has_its_outcome() {
    let id = ExecutionId(1);
    let mut scene = adopted(Scene::running(Policy::default(), id, ExecutionLimits::default()));

    let ended = Seen::Ended(Outcome::exited(0));
    scene.looked(present(vec![body(1, vec![(id, ended)])]));

    assert_eq!(scene.outcome(id), Some((OutcomeKind::Exited, Cause::Completed)));
}

#[test]
fn a_body_lost_with_its_host_says_so() {
    let mut scene = Scene::live(Policy::default());
    scene.node = ELSEWHERE;

    scene.ask(Request::Adopt { dead: HERE, rebooted: true }).unwrap();
    scene.looked(absent());

    assert_eq!(scene.cause(), Some(Cause::HostRestarted));
}

#[test]
fn what_the_disk_has_kept_of_a_body_lost_with_its_host_is_ended_for_that_reason() {
    let id = ExecutionId(1);
    let mut scene = Scene::running(Policy::default(), id, ExecutionLimits::default());
    scene.node = ELSEWHERE;
    scene.ask(Request::Adopt { dead: HERE, rebooted: true }).unwrap();

    scene.looked(present(vec![BodySeen { whole: false, ..body(1, vec![]) }]));
    scene.stopped(gone());

    assert_eq!(scene.cause(), Some(Cause::HostRestarted));
    assert_eq!(scene.outcome(id), Some((OutcomeKind::Lost, Cause::HostRestarted)));
}

#[test]
fn an_owner_that_wakes_up_late_changes_nothing() {
    let scene = Scene::stopping(Policy::default());
    let old = scene.duty(|_| true).ticket;
    let mut scene = adopted(scene);
    let before = scene.sandbox.clone();

    scene.node = HERE;
    scene.tell(Event::Stopped { ticket: old, outcome: gone() });

    assert_eq!(scene.sandbox, before);
}

#[test]
fn a_sandbox_that_belongs_to_its_caller_ends_when_the_caller_is_dead() {
    let scene = Scene::created(Policy { ends_with_owner: true, ..Policy::default() });

    let scene = adopted(scene);

    assert!(matches!(scene.sandbox.life, Life::Ending { cause: Cause::CallerGone, .. }));
    assert_eq!(scene.work(), [EffectKind::Stop { grace_ms: 0 }]);
}
