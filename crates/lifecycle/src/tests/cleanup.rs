//! Stuck sandboxes: every rule at its threshold, to the millisecond.

use super::*;

const MINUTE: u64 = 60_000;
const RULES: CleanupRules = CleanupRules {
    orphan_ms: 10 * MINUTE,
    stuck_ms: 30 * MINUTE,
    max_age_ms: 10 * MINUTE,
    overdue_ms: MINUTE,
};
const WORK: ExecutionId = ExecutionId(1);

/// A policy without deadlines of its own, so that only the cleanup rules apply.
fn patient() -> Policy {
    let day = 24 * 60 * MINUTE;
    Policy { start_ms: day, unhealthy_age_ms: day, idle_ms: None, max_life_ms: day, ..Policy::default() }
}

fn after(ms: u64) -> Timestamp {
    NOON.after_ms(ms)
}

/// The verdict of the cleanup rules, with an engine running since noon.
fn judged(fixture: &Fixture, activity: Activity, now: Timestamp) -> Option<Stuck> {
    let subject = CleanupCandidate {
        sandbox: &fixture.sandbox,
        policy: &fixture.policy,
        activity,
        monitored_since: NOON,
    };
    stuck(&subject, &RULES, now)
}

fn needs_observation_at(fixture: &Fixture, now: Timestamp) -> bool {
    let activity = Activity::Unknown;
    let subject = CleanupCandidate {
        sandbox: &fixture.sandbox,
        policy: &fixture.policy,
        activity,
        monitored_since: NOON,
    };
    needs_observation(&subject, &RULES, now)
}

fn unhealthy() -> Fixture {
    let mut fixture = Fixture::live(patient());
    fixture.wait_ms(15_000);
    let broken = || ProbeResult::Failed(ProbeFailure::Files { why: "/home is not mounted".into() });
    fixture.probed(broken());
    fixture.probed(broken());
    fixture
}

fn at_work(limits: ExecutionLimits) -> Fixture {
    Fixture::running(patient(), WORK, limits)
}

fn without_end() -> Fixture {
    at_work(ExecutionLimits::default())
}

#[test]
fn each_stuck_rule_has_its_own_threshold_and_cause() {
    let late = ExecutionLimits { timeout_ms: Some(5 * MINUTE), inactivity_ms: None };
    let hasty = Policy { start_ms: MINUTE, ..patient() };
    let short = Policy { max_life_ms: 5 * MINUTE, ..patient() };
    let quiet = Activity::LastSeen(NOON);
    for (what, fixture, activity, from_ms, cause) in [
        ("starts", Fixture::created(patient()), Activity::Unknown, 10 * MINUTE, Cause::StartDeadline),
        ("unhealthy", unhealthy(), Activity::Unknown, 10 * MINUTE, Cause::ProbeFailed),
        ("late start", Fixture::created(hasty), Activity::Unknown, 2 * MINUTE, Cause::StartDeadline),
        ("late end", Fixture::live(short), Activity::Unknown, 6 * MINUTE, Cause::MaxLife),
        ("late work", at_work(late), Activity::Unknown, 6 * MINUTE, Cause::TimeLimit),
        ("silent work", without_end(), quiet, 30 * MINUTE, Cause::Inactivity),
        ("nothing done", Fixture::live(patient()), quiet, 10 * MINUTE, Cause::Idle),
    ] {
        assert_eq!(judged(&fixture, activity, after(from_ms - 1)), None, "{what}");
        let stuck = judged(&fixture, activity, after(from_ms));
        assert_eq!(stuck.map(|stuck| stuck.cause()), Some(cause), "{what}: {stuck:?}");
    }
}

#[test]
fn healthy_busy_sandbox_is_never_stuck_by_age() {
    let fixture = without_end();
    for minutes in [10, 30, 600, 1_439] {
        let now = after(minutes * MINUTE);
        let a_moment_ago = Activity::LastSeen(Timestamp(now.0 - 1));

        assert_eq!(judged(&fixture, a_moment_ago, now), None, "{minutes} min");
        assert_eq!(judged(&fixture, Activity::Unknown, now), None, "not observed after {minutes} min");
    }
}

#[test]
fn silence_counts_from_the_last_activity() {
    let fixture = without_end();
    let last = after(15 * MINUTE);

    assert_eq!(judged(&fixture, Activity::LastSeen(last), after(45 * MINUTE - 1)), None);
    assert_eq!(
        judged(&fixture, Activity::LastSeen(last), after(45 * MINUTE)),
        Some(Stuck::Silent { since: last, at_work: true })
    );
}

#[test]
fn longer_own_inactivity_limit_takes_precedence() {
    let limits = ExecutionLimits { timeout_ms: None, inactivity_ms: Some(60 * MINUTE) };
    let idle = Fixture::live(Policy { idle_ms: Some(60 * MINUTE), ..patient() });
    for fixture in [at_work(limits), idle] {
        assert_eq!(judged(&fixture, Activity::LastSeen(NOON), after(60 * MINUTE - 1)), None);
        assert!(judged(&fixture, Activity::LastSeen(NOON), after(60 * MINUTE)).is_some());
    }
}

#[test]
fn deadline_that_passed_without_an_engine_is_not_overdue_yet() {
    let fixture = Fixture::live(Policy { max_life_ms: 5 * MINUTE, ..patient() });
    let since = |watched_since| CleanupCandidate {
        sandbox: &fixture.sandbox,
        policy: &fixture.policy,
        activity: Activity::Unknown,
        monitored_since: watched_since,
    };
    let now = after(60 * MINUTE);
    let in_time = Timestamp(now.0 - 60_000);

    assert!(matches!(stuck(&since(in_time), &RULES, now), Some(Stuck::Overdue { .. })));
    assert_eq!(stuck(&since(Timestamp(in_time.0 + 1)), &RULES, now), None);
}

#[test]
fn ending_and_pooled_sandboxes_are_not_stuck() {
    let shape = Spec::default().shape();
    let policy = patient();
    let ctx = Context { now: NOON, node: HERE, policy: &policy };
    let pooled = Fixture::from(create_pooled(SandboxId(7), shape, ctx), policy.clone());
    let next_day = after(25 * 60 * MINUTE);
    for fixture in [Fixture::stopping(patient()), Fixture::quarantined(), pooled] {
        assert_eq!(judged(&fixture, Activity::LastSeen(NOON), next_day), None, "{:?}", fixture.sandbox);
    }
}

#[test]
fn late_retry_has_the_full_start_time() {
    let recovery = Some(Recovery { attempts: 3, backoff_ms: 20 * MINUTE });
    let policy = Policy { recovery, probe_every_ms: 600 * MINUTE, ..patient() };
    let mut fixture = Fixture::running(policy, WORK, ExecutionLimits::default());
    fixture.wait_ms(60 * MINUTE);
    fixture.apply(Event::Doubted { why: "no answer".into() });
    fixture.observed(absent());
    assert!(matches!(fixture.sandbox.lease, Lease::LaunchWaiting { .. }), "{:?}", fixture.sandbox.lease);

    assert_eq!(judged(&fixture, Activity::Unknown, after(70 * MINUTE - 1)), None);
    assert!(matches!(
        judged(&fixture, Activity::Unknown, after(70 * MINUTE)),
        Some(Stuck::NeverReady { since }) if since == after(60 * MINUTE)
    ));
}

#[test]
fn only_old_healthy_sandboxes_need_an_observation() {
    let late = ExecutionLimits { timeout_ms: Some(5 * MINUTE), inactivity_ms: None };

    assert!(!needs_observation_at(&without_end(), after(30 * MINUTE - 1)));
    assert!(needs_observation_at(&without_end(), after(30 * MINUTE)));
    assert!(!needs_observation_at(&unhealthy(), after(30 * MINUTE)), "its state decides");
    assert!(!needs_observation_at(&at_work(late), after(30 * MINUTE)), "its deadline decides");
}
