//! Probes, observations, inconclusive checks, idleness and maximum life.

use super::*;

fn broken_files() -> ProbeResult {
    ProbeResult::Failed(ProbeFailure::Files { why: "/home is not mounted".into() })
}

#[test]
fn old_evidence_shows_as_unknown() {
    let mut fixture = Fixture::live(Policy::default());

    fixture.now = fixture.now.after_ms(30_000);
    let at_thirty = fixture.status();
    fixture.now = fixture.now.after_ms(1);

    assert_eq!(at_thirty, State::Ready);
    assert_eq!(fixture.status(), State::Unknown);
}

#[test]
fn a_failed_ping_leads_to_a_full_probe() {
    let mut fixture = Fixture::live(Policy::default());
    fixture.wait_ms(15_000);

    let routine = fixture.effect_kinds();
    fixture.probed(ProbeResult::Unknown { why: "no answer".into() });

    assert_eq!(routine, [EffectKind::Ping]);
    assert_eq!(fixture.effect_kinds(), [EffectKind::Probe]);
    assert_eq!(fixture.status(), State::Ready);
}

#[test]
fn unhealthy_young_sandbox_is_reported_and_observed() {
    let mut fixture = Fixture::live(Policy::default());
    fixture.wait_ms(15_000);
    fixture.probed(broken_files());

    fixture.probed(broken_files());

    assert_eq!(fixture.status(), State::Unhealthy);
    assert_eq!(fixture.effect_kinds(), [EffectKind::Observe]);
}

#[test]
fn an_unhealthy_sandbox_is_probed_again_and_a_ping_does_not_make_it_healthy() {
    let mut fixture = Fixture::live(Policy::default());
    fixture.wait_ms(15_000);
    fixture.probed(broken_files());
    fixture.probed(broken_files());
    fixture.observed(present(vec![instance(1, vec![])]));

    fixture.wait_ms(15_000);

    assert_eq!((fixture.effect_kinds(), fixture.status()), (vec![EffectKind::Probe], State::Unhealthy));
}

#[test]
fn an_old_sandbox_is_ended_by_three_failed_probes_in_a_row() {
    let mut fixture = Fixture::live(Policy { idle_ms: None, ..Policy::default() });
    fixture.wait_ms(600_000);
    fixture.probed(broken_files());
    let mut causes = Vec::new();

    for _ in 0..3 {
        fixture.probed(broken_files());
        causes.push(fixture.cause());
        if fixture.cause().is_none() {
            fixture.observed(present(vec![instance(1, vec![])]));
            fixture.wait_ms(15_000);
        }
    }

    assert_eq!(causes, [None, None, Some(Cause::ProbeFailed)]);
}

#[test]
fn a_passed_probe_ends_the_row_of_failed_ones() {
    let mut fixture = Fixture::live(Policy { idle_ms: None, ..Policy::default() });
    fixture.wait_ms(600_000);
    fixture.probed(broken_files());

    for result in [broken_files(), broken_files(), ProbeResult::Passed, broken_files(), broken_files()] {
        fixture.probed(result);
        if fixture.effect_kinds() == [EffectKind::Observe] {
            fixture.observed(present(vec![instance(1, vec![])]));
        }
        fixture.wait_ms(15_000);
        if fixture.effect_kinds() == [EffectKind::Ping] {
            fixture.probed(broken_files());
        }
    }

    assert_eq!((fixture.cause(), fixture.status()), (None, State::Unhealthy));
}

#[test]
fn a_check_abandoned_by_another_node_is_repeated_and_is_no_doubt() {
    let mut fixture = Fixture::live(Policy::default());
    fixture.apply(Event::Doubted { why: "a listing missed it".into() });

    fixture.node = ELSEWHERE;
    fixture.wait_ms(120_000);
    let repeated = fixture.pending(|kind| kind == EffectKind::Observe);
    fixture.observed(present(vec![instance(1, vec![])]));

    assert_eq!(repeated.node, ELSEWHERE);
    let doubts = fixture.facts.iter().filter(|fact| matches!(fact, Fact::InDoubt { .. })).count();
    assert_eq!((doubts, fixture.cause()), (1, None));
}

#[test]
fn a_sandbox_that_passes_again_is_healthy_again() {
    let mut fixture = Fixture::live(Policy::default());
    fixture.wait_ms(15_000);
    fixture.probed(broken_files());
    fixture.probed(broken_files());
    fixture.observed(present(vec![instance(1, vec![])]));

    fixture.wait_ms(15_000);
    fixture.probed(ProbeResult::Passed);

    assert_eq!(fixture.status(), State::Ready);
    assert!(fixture.has(|fact| *fact == Fact::BecameHealthy));
}

#[test]
fn contradicting_user_operation_triggers_a_probe_that_decides() {
    let mut fixture = Fixture::live(Policy::default());

    fixture.apply(Event::Disagreed { why: "a mount is missing".into() });
    let (work, before) = (fixture.effect_kinds(), fixture.status());
    fixture.probed(broken_files());

    assert_eq!((work, before), (vec![EffectKind::Probe], State::Ready));
    assert_eq!(fixture.status(), State::Unhealthy);
}

#[test]
fn lasting_inconclusive_checks_end_the_sandbox() {
    let mut fixture = Fixture::live(Policy::default());
    fixture.apply(Event::Doubted { why: "a mount is missing".into() });
    fixture.observed(unknown());

    let mut lasted_ms = 0;
    while matches!(fixture.sandbox.life, Life::Wanted) {
        let next = fixture.sandbox.next_deadline().unwrap();
        lasted_ms += next.ms_since(fixture.now);
        fixture.wait_ms(next.ms_since(fixture.now));
    }

    assert_eq!(fixture.cause(), Some(Cause::ProviderError));
    assert!((60_000..70_000).contains(&lasted_ms), "{lasted_ms}");
}

#[test]
fn instance_ended_by_its_own_deadline_has_cause_max_life() {
    let mut fixture = Fixture::live(Policy::default());
    fixture.apply(Event::Doubted { why: "its keeper does not answer".into() });
    fixture.now = fixture.sandbox.expires_at;

    fixture.observed(present(vec![InstanceObservation { whole: false, ..instance(1, vec![]) }]));

    assert_eq!(fixture.cause(), Some(Cause::MaxLife));
}

#[test]
fn killed_keeper_is_a_cause_of_its_own_with_a_message() {
    let mut fixture = Fixture::live(Policy::default());
    fixture.apply(Event::Doubted { why: "its keeper has ended".into() });

    let keeper_end = Some("was killed by signal 9".to_owned());
    let killed = InstanceObservation { whole: false, keeper_end, ..instance(1, vec![]) };
    fixture.observed(present(vec![killed]));
    fixture.stopped(gone());

    let seen = status(&fixture.sandbox, fixture.now, &fixture.policy);
    assert_eq!(
        (seen.cause, seen.message.as_str()),
        (Some(Cause::KeeperKilled), "its keeper was killed by signal 9",)
    );
    assert!(fixture.has(|fact| matches!(fact, Fact::Reconciled { .. })));
}

#[test]
fn absent_instance_is_lost_with_its_executions() {
    let id = ExecutionId(1);
    let mut fixture = Fixture::running(Policy::default(), id, ExecutionLimits::default());
    fixture.apply(Event::Doubted { why: "its cgroup is empty".into() });

    fixture.observed(absent());

    assert_eq!(fixture.cause(), Some(Cause::Lost));
    assert!(fixture.sandbox.is_settled());
    assert_eq!(fixture.outcome(id), Some((OutcomeKind::Lost, Cause::Lost)));
}

#[test]
fn sandbox_without_executions_becomes_idle() {
    let mut fixture = Fixture::live(Policy { probe_every_ms: 86_400_000, ..Policy::default() });

    fixture.wait_ms(600_000);
    fixture.observed(present(vec![instance(1, vec![])]));

    assert_eq!(fixture.cause(), Some(Cause::Idle));
}

#[test]
fn a_sandbox_that_used_its_cpu_is_not_idle() {
    let mut fixture = Fixture::live(Policy { probe_every_ms: 86_400_000, ..Policy::default() });

    fixture.wait_ms(600_000);
    let busy = InstanceObservation { last_busy_at: Some(fixture.now), ..instance(1, vec![]) };
    fixture.observed(present(vec![busy]));

    assert_eq!(fixture.sandbox.life, Life::Wanted);
    assert_eq!(fixture.sandbox.next_deadline(), Some(fixture.now.after_ms(600_000)));
}

#[test]
fn a_sandbox_that_is_kept_alive_is_idle_later() {
    let mut fixture = Fixture::live(Policy { probe_every_ms: 86_400_000, ..Policy::default() });
    fixture.wait_ms(500_000);

    fixture.request(Request::KeepAlive).unwrap();

    assert_eq!(fixture.sandbox.next_deadline(), Some(fixture.now.after_ms(600_000)));
}

#[test]
fn no_sandbox_outlives_its_maximum_life() {
    let id = ExecutionId(1);
    let mut fixture = Fixture::running(Policy::default(), id, ExecutionLimits::default());

    fixture.wait_ms(86_400_000);
    fixture.stopped(gone());

    assert_eq!(fixture.cause(), Some(Cause::MaxLife));
    assert_eq!(fixture.outcome(id), Some((OutcomeKind::TimedOut, Cause::MaxLife)));
}
