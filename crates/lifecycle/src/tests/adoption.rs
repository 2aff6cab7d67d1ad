//! Adoption of a dead node's sandboxes and pending effects.

use super::*;

fn adopted(mut fixture: Fixture) -> Fixture {
    fixture.node = ELSEWHERE;
    fixture.request(Request::Adopt { dead: HERE, rebooted: false }).unwrap();
    fixture
}

#[test]
fn launch_of_a_dead_node_is_no_longer_permitted() {
    let fixture = Fixture::created(Policy::default());
    let launch = fixture.pending(|kind| kind == EffectKind::Launch).fence;

    let fixture = adopted(fixture);

    assert!(!fixture.sandbox.permits_launch(launch));
    assert_eq!(fixture.effect_kinds(), [EffectKind::Observe]);
    assert_eq!(fixture.sandbox.owner, ELSEWHERE);
}

#[test]
fn complete_leased_instance_is_reused() {
    let mut fixture = adopted(Fixture::created(Policy::default()));

    fixture.observed(present(vec![instance(1, vec![])]));
    fixture.probed(ProbeResult::Passed);

    assert_eq!(fixture.status(), State::Ready);
    assert_eq!(fixture.sandbox.generation(), Generation(1));
}

#[test]
fn instance_other_than_the_leased_one_is_stopped_first() {
    let half = InstanceObservation { whole: false, ..instance(1, vec![]) };
    let findings = [vec![half], vec![instance(2, vec![])], vec![instance(1, vec![]), instance(1, vec![])]];

    for found in findings {
        let mut fixture = adopted(Fixture::created(Policy::default()));
        fixture.observed(present(found));

        assert_eq!(fixture.effect_kinds(), [EffectKind::Stop { grace_ms: 2_000 }]);
    }
}

#[test]
fn launch_that_created_nothing_is_retried() {
    let mut fixture = adopted(Fixture::created(Policy::default()));

    fixture.observed(absent());

    assert_eq!(fixture.effect_kinds(), [EffectKind::Launch]);
    assert_eq!(fixture.sandbox.generation(), Generation(2));
}

#[test]
fn adopted_stop_keeps_its_attempt_and_deadline() {
    let fixture = Fixture::stopping(Policy::default());
    let before = fixture.pending(|_| true);

    let fixture = adopted(fixture);

    let after = fixture.pending(|_| true);
    assert!(matches!(fixture.sandbox.lease, Lease::Stopping { attempt: 1, .. }));
    assert_eq!(after.deadline, before.deadline);
    assert_eq!(after.node, ELSEWHERE);
}

#[test]
fn an_execution_whose_process_cannot_be_proven_alive_is_lost() {
    let id = ExecutionId(1);
    let mut fixture = adopted(Fixture::running(Policy::default(), id, ExecutionLimits::default()));

    fixture.observed(present(vec![instance(1, vec![])]));

    assert_eq!(fixture.outcome(id), Some((OutcomeKind::Lost, Cause::Lost)));
    assert_eq!(fixture.sandbox.life, Life::Wanted);
}

#[test]
fn execution_that_ended_unwatched_has_its_outcome() {
    let id = ExecutionId(1);
    let mut fixture = adopted(Fixture::running(Policy::default(), id, ExecutionLimits::default()));

    let ended = ProcessObservation::Ended(Outcome::exited(0));
    fixture.observed(present(vec![instance(1, vec![(id, ended)])]));

    assert_eq!(fixture.outcome(id), Some((OutcomeKind::Exited, Cause::Completed)));
}

#[test]
fn instance_lost_in_a_reboot_has_cause_host_restarted() {
    let mut fixture = Fixture::live(Policy::default());
    fixture.node = ELSEWHERE;

    fixture.request(Request::Adopt { dead: HERE, rebooted: true }).unwrap();
    fixture.observed(absent());

    assert_eq!(fixture.cause(), Some(Cause::HostRestarted));
}

#[test]
fn remains_of_an_instance_after_a_reboot_have_cause_host_restarted() {
    let id = ExecutionId(1);
    let mut fixture = Fixture::running(Policy::default(), id, ExecutionLimits::default());
    fixture.node = ELSEWHERE;
    fixture.request(Request::Adopt { dead: HERE, rebooted: true }).unwrap();

    fixture.observed(present(vec![InstanceObservation { whole: false, ..instance(1, vec![]) }]));
    fixture.stopped(gone());

    assert_eq!(fixture.cause(), Some(Cause::HostRestarted));
    assert_eq!(fixture.outcome(id), Some((OutcomeKind::Lost, Cause::HostRestarted)));
}

#[test]
fn an_owner_that_wakes_up_late_changes_nothing() {
    let fixture = Fixture::stopping(Policy::default());
    let old = fixture.pending(|_| true).fence;
    let mut fixture = adopted(fixture);
    let before = fixture.sandbox.clone();

    fixture.node = HERE;
    fixture.apply(Event::Stopped { fence: old, outcome: gone() });

    assert_eq!(fixture.sandbox, before);
}

#[test]
fn a_sandbox_that_belongs_to_its_caller_ends_when_the_caller_is_dead() {
    let fixture = Fixture::created(Policy { ends_with_owner: true, ..Policy::default() });

    let fixture = adopted(fixture);

    assert!(matches!(fixture.sandbox.life, Life::Ending { cause: Cause::CallerGone, .. }));
    assert_eq!(fixture.effect_kinds(), [EffectKind::Stop { grace_ms: 0 }]);
}
