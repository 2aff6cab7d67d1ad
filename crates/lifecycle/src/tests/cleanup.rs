//! Who is stuck and who is not, to the millisecond.

use super::*;

const MINUTE: u64 = 60_000;
const RULES: CleanupRules = CleanupRules {
    orphan_ms: 10 * MINUTE,
    stuck_ms: 30 * MINUTE,
    max_age_ms: 10 * MINUTE,
    overdue_ms: MINUTE,
};
const WORK: ExecutionId = ExecutionId(1);

/// Nobody but the cleanup ends what these policies say nothing about.
fn patient() -> Policy {
    let day = 24 * 60 * MINUTE;
    Policy { start_ms: day, unhealthy_age_ms: day, idle_ms: None, max_life_ms: day, ..Policy::default() }
}

fn after(ms: u64) -> Timestamp {
    NOON.after_ms(ms)
}

/// Seen from noon on.
fn judged(scene: &Scene, activity: Activity, now: Timestamp) -> Option<Stuck> {
    let subject = Subject { sandbox: &scene.sandbox, policy: &scene.policy, activity, watched_since: NOON };
    stuck(&subject, &RULES, now)
}

fn is_told_by_a_look_at(scene: &Scene, now: Timestamp) -> bool {
    let activity = Activity::Unknown;
    let subject = Subject { sandbox: &scene.sandbox, policy: &scene.policy, activity, watched_since: NOON };
    is_told_by_a_look(&subject, &RULES, now)
}

fn unhealthy() -> Scene {
    let mut scene = Scene::live(patient());
    scene.wait_ms(15_000);
    let broken = || Probed::Failed(ProbeFailure::Files { why: "/home is not mounted".into() });
    scene.probed(broken());
    scene.probed(broken());
    scene
}

fn at_work(limits: ExecutionLimits) -> Scene {
    Scene::running(patient(), WORK, limits)
}

fn without_end() -> Scene {
    at_work(ExecutionLimits::default())
}

#[test]
fn each_way_to_be_stuck_begins_at_its_own_moment_and_has_its_own_cause() {
    let late = ExecutionLimits { timeout_ms: Some(5 * MINUTE), inactivity_ms: None };
    let hasty = Policy { start_ms: MINUTE, ..patient() };
    let short = Policy { max_life_ms: 5 * MINUTE, ..patient() };
    let quiet = Activity::LastSeen(NOON);
    for (what, scene, activity, from_ms, cause) in [
        ("starts", Scene::created(patient()), Activity::Unknown, 10 * MINUTE, Cause::StartDeadline),
        ("unhealthy", unhealthy(), Activity::Unknown, 10 * MINUTE, Cause::ProbeFailed),
        ("late start", Scene::created(hasty), Activity::Unknown, 2 * MINUTE, Cause::StartDeadline),
        ("late end", Scene::live(short), Activity::Unknown, 6 * MINUTE, Cause::MaxLife),
        ("late work", at_work(late), Activity::Unknown, 6 * MINUTE, Cause::TimeLimit),
        ("silent work", without_end(), quiet, 30 * MINUTE, Cause::Inactivity),
        ("nothing done", Scene::live(patient()), quiet, 10 * MINUTE, Cause::Idle),
    ] {
        assert_eq!(judged(&scene, activity, after(from_ms - 1)), None, "{what}");
        let stuck = judged(&scene, activity, after(from_ms));
        assert_eq!(stuck.map(|stuck| stuck.cause()), Some(cause), "{what}: {stuck:?}");
    }
}

#[test]
fn a_healthy_run_that_is_at_work_is_never_too_old() {
    let scene = without_end();
    for minutes in [10, 30, 600, 1_439] {
        let now = after(minutes * MINUTE);
        let a_moment_ago = Activity::LastSeen(Timestamp(now.0 - 1));

        assert_eq!(judged(&scene, a_moment_ago, now), None, "{minutes} min");
        assert_eq!(judged(&scene, Activity::Unknown, now), None, "nobody looked after {minutes} min");
    }
}

#[test]
fn silence_counts_from_the_last_sign_of_life() {
    let scene = without_end();
    let last = after(15 * MINUTE);

    assert_eq!(judged(&scene, Activity::LastSeen(last), after(45 * MINUTE - 1)), None);
    assert_eq!(
        judged(&scene, Activity::LastSeen(last), after(45 * MINUTE)),
        Some(Stuck::Silent { since: last, at_work: true })
    );
}

#[test]
fn whoever_asked_for_a_longer_silence_gets_it() {
    let limits = ExecutionLimits { timeout_ms: None, inactivity_ms: Some(60 * MINUTE) };
    let idle = Scene::live(Policy { idle_ms: Some(60 * MINUTE), ..patient() });
    for scene in [at_work(limits), idle] {
        assert_eq!(judged(&scene, Activity::LastSeen(NOON), after(60 * MINUTE - 1)), None);
        assert!(judged(&scene, Activity::LastSeen(NOON), after(60 * MINUTE)).is_some());
    }
}

#[test]
fn what_fell_due_while_nobody_was_there_is_about_to_be_seen_to() {
    let scene = Scene::live(Policy { max_life_ms: 5 * MINUTE, ..patient() });
    let since = |watched_since| Subject {
        sandbox: &scene.sandbox,
        policy: &scene.policy,
        activity: Activity::Unknown,
        watched_since,
    };
    let now = after(60 * MINUTE);
    let in_time = Timestamp(now.0 - 60_000);

    assert!(matches!(stuck(&since(in_time), &RULES, now), Some(Stuck::Overdue { .. })));
    assert_eq!(stuck(&since(Timestamp(in_time.0 + 1)), &RULES, now), None);
}

#[test]
fn what_is_being_ended_or_waits_in_the_pool_is_left_alone() {
    let shape = Spec::default().shape();
    let policy = patient();
    let ctx = Context { now: NOON, node: HERE, policy: &policy };
    let pooled = Scene::from(create_pooled(SandboxId(7), shape, ctx), policy.clone());
    let next_day = after(25 * 60 * MINUTE);
    for scene in [Scene::stopping(patient()), Scene::quarantined(), pooled] {
        assert_eq!(judged(&scene, Activity::LastSeen(NOON), next_day), None, "{:?}", scene.sandbox);
    }
}

#[test]
fn a_run_that_is_tried_again_late_in_its_life_has_its_time_to_start() {
    let recovery = Some(Recovery { tries: 3, backoff_ms: 20 * MINUTE });
    let policy = Policy { recovery, probe_every_ms: 600 * MINUTE, ..patient() };
    let mut scene = Scene::running(policy, WORK, ExecutionLimits::default());
    scene.wait_ms(60 * MINUTE);
    scene.tell(Event::Doubted { why: "nobody answers".into() });
    scene.looked(absent());
    assert!(matches!(scene.sandbox.lease, Lease::LaunchWaiting { .. }), "{:?}", scene.sandbox.lease);

    assert_eq!(judged(&scene, Activity::Unknown, after(70 * MINUTE - 1)), None);
    assert!(matches!(
        judged(&scene, Activity::Unknown, after(70 * MINUTE)),
        Some(Stuck::NeverReady { since }) if since == after(60 * MINUTE)
    ));
}

#[test]
fn only_what_is_old_and_otherwise_well_has_to_be_looked_at() {
    let late = ExecutionLimits { timeout_ms: Some(5 * MINUTE), inactivity_ms: None };

    assert!(!is_told_by_a_look_at(&without_end(), after(30 * MINUTE - 1)));
    assert!(is_told_by_a_look_at(&without_end(), after(30 * MINUTE)));
    assert!(!is_told_by_a_look_at(&unhealthy(), after(30 * MINUTE)), "its state tells");
    assert!(!is_told_by_a_look_at(&at_work(late), after(30 * MINUTE)), "its deadline tells");
}
