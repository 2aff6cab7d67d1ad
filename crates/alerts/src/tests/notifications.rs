//! Notifications: cooldown, reminders, escalation, acknowledgement, silence.

use super::{AlertRun, HOUR, MINUTE, active, stuck, text};
use crate::{
    Alert, AlertInputs, AlertRefusal, AlertRequest, ChangeKind, EscalationLevel, Phase, Rule, Suppression,
    apply_request,
};

fn acknowledge() -> AlertRequest {
    AlertRequest::Acknowledge { by: "ann".into() }
}

#[test]
fn value_below_the_threshold_restarts_the_sustained_time() {
    let mut run = AlertRun::of(Alert::SandboxLeakDetected);

    run.evaluate_after(0, &active(21));
    run.evaluate_for(4 * MINUTE, &active(21));
    run.evaluate_after(15_000, &active(20));
    let early = run.evaluate_for(5 * MINUTE, &active(21));

    assert_eq!(early, []);
    assert_eq!(run.evaluate_after(15_000, &active(21)).len(), 1);
}

#[test]
fn long_gap_between_evaluations_restarts_the_sustained_time() {
    let mut run = AlertRun::of(Alert::SandboxLeakDetected);
    run.evaluate_after(0, &active(21));

    assert_eq!(run.evaluate_after(HOUR, &active(21)), []);
    assert_eq!(run.evaluate_for(5 * MINUTE, &active(21)).len(), 1);
}

#[test]
fn unknown_value_does_not_restart_the_sustained_time() {
    let mut run = AlertRun::of(Alert::SandboxLeakDetected);
    run.evaluate_after(0, &active(21));
    run.evaluate_for(4 * MINUTE, &active(21));

    run.evaluate_after(15_000, &AlertInputs::default());
    let fired = run.evaluate_for(MINUTE, &active(21));

    assert_eq!(fired.len(), 1);
}

#[test]
fn flapping_alert_is_notified_once_per_cooldown() {
    let mut run = AlertRun::of(Alert::SandboxActiveHigh);
    let mut happened = Vec::new();

    for _ in 0..100 {
        happened.extend(run.evaluate_after(15_000, &active(51)));
        happened.extend(run.evaluate_after(15_000, &active(50)));
    }

    assert_eq!(text(&happened), [&ChangeKind::Fired, &ChangeKind::Resolved]);
    assert_eq!(happened.len(), 200);
    assert!(happened[2..].iter().all(|it| it.suppressed == Some(Suppression::Cooldown)));
}

#[test]
fn alert_that_fires_after_the_cooldown_is_notified_again() {
    let mut run = AlertRun::of(Alert::SandboxActiveHigh);
    run.evaluate_after(0, &active(51));
    run.evaluate_after(MINUTE, &active(50));

    let soon = run.evaluate_after(58 * MINUTE, &active(51));
    run.evaluate_after(MINUTE - 1, &active(50));
    let later = run.evaluate_after(1, &active(51));

    assert_eq!((text(&soon), text(&later)), (vec![], vec![&ChangeKind::Fired]));
}

#[test]
fn pending_phase_does_not_end_the_cooldown() {
    let rule = Rule { threshold: 3.0, sustained_ms: MINUTE, minimum: 0 };
    let mut run = AlertRun::with(Alert::SandboxLeakDetected, rule);
    run.evaluate_for(2 * MINUTE, &active(4));
    run.evaluate_after(15_000, &active(0));

    run.evaluate_after(15_000, &active(4));
    run.evaluate_after(15_000, &active(0));
    let again = run.evaluate_for(2 * MINUTE, &active(4));

    assert_eq!(again.iter().map(|it| it.suppressed).collect::<Vec<_>>(), [Some(Suppression::Cooldown)]);
}

#[test]
fn alert_suppressed_by_cooldown_is_notified_when_the_cooldown_ends() {
    let mut run = AlertRun::of(Alert::SandboxActiveHigh);
    run.evaluate_after(0, &active(51));
    run.evaluate_after(MINUTE, &active(50));

    let within = run.evaluate_for(58 * MINUTE, &active(51));
    let after = run.evaluate_for(MINUTE, &active(51));

    assert_eq!((text(&within), text(&after)), (vec![], vec![&ChangeKind::Repeated]));
    assert_eq!(text(&run.evaluate_after(15_000, &active(0))), [&ChangeKind::Resolved]);
}

#[test]
fn firing_alert_is_repeated_once_per_cooldown() {
    let mut run = AlertRun::of(Alert::SandboxActiveHigh);

    let happened = [run.evaluate_after(0, &active(51)), run.evaluate_for(3 * HOUR, &active(51))].concat();

    assert_eq!(
        text(&happened),
        [&ChangeKind::Fired, &ChangeKind::Repeated, &ChangeKind::Repeated, &ChangeKind::Repeated]
    );
}

#[test]
fn unacknowledged_critical_alert_escalates() {
    let mut run = AlertRun::of(Alert::SandboxStuck);

    let happened = [run.evaluate_after(0, &stuck(1)), run.evaluate_for(3 * HOUR, &stuck(1))].concat();

    let escalated: Vec<_> =
        happened.iter().filter(|it| it.kind == ChangeKind::Escalated).map(|it| (it.level, it.at)).collect();
    let at = |minutes: u64| super::NOON.after_ms(minutes * MINUTE);
    assert_eq!(
        escalated,
        [(EscalationLevel::Infrastructure, at(30)), (EscalationLevel::PlatformSupport, at(60))]
    );
    assert_eq!(run.evaluate_after(15_000, &stuck(0))[0].level, EscalationLevel::PlatformSupport);
}

#[test]
fn warning_does_not_escalate() {
    let mut run = AlertRun::of(Alert::SandboxActiveHigh);

    let happened = [run.evaluate_after(0, &active(51)), run.evaluate_for(5 * HOUR, &active(51))].concat();

    assert!(happened.iter().all(|it| it.level == EscalationLevel::AgentTeam));
}

#[test]
fn late_evaluation_escalates_once_to_the_right_level() {
    let mut run = AlertRun::of(Alert::SandboxStuck);
    run.evaluate_after(0, &stuck(1));

    let late = run.evaluate_after(70 * MINUTE, &stuck(1));

    assert_eq!(
        (text(&late), late[0].level),
        (vec![&ChangeKind::Escalated], EscalationLevel::PlatformSupport)
    );
}

#[test]
fn acknowledged_alert_is_not_notified_again() {
    let mut run = AlertRun::of(Alert::SandboxStuck);
    run.evaluate_after(0, &stuck(1));

    run.request(acknowledge());
    let quiet = run.evaluate_for(5 * HOUR, &stuck(2));
    let over = run.evaluate_after(15_000, &stuck(0));
    let again = run.evaluate_after(15_000, &stuck(1));

    assert_eq!((quiet, text(&over)), (vec![], vec![&ChangeKind::Resolved]));
    assert_eq!(text(&again), [&ChangeKind::Fired]);
    assert_eq!(run.state.firing().next().unwrap().1.acknowledged, None);
}

#[test]
fn first_acknowledgement_is_kept_and_an_inactive_alert_refuses_one() {
    let mut run = AlertRun::of(Alert::SandboxStuck);
    assert_eq!(apply_request(run.alert, &run.state, acknowledge(), run.now), Err(AlertRefusal::NotFiring));
    run.evaluate_after(0, &stuck(1));
    run.request(acknowledge());

    let again = apply_request(run.alert, &run.state, AlertRequest::Acknowledge { by: "bob".into() }, run.now)
        .unwrap();

    assert_eq!((again.state, again.changes), (run.state, vec![]));
}

#[test]
fn silenced_alert_is_notified_after_the_silence() {
    let mut run = AlertRun::of(Alert::SandboxStuck);
    let until = run.now.after_ms(HOUR);
    run.request(AlertRequest::Silence { until, reason: "moving house".into(), by: "ann".into() });

    let silent = [run.evaluate_after(0, &stuck(1)), run.evaluate_for(HOUR - 15_000, &stuck(1))].concat();
    let after = run.evaluate_after(15_000, &stuck(1));

    assert_eq!((text(&silent), silent[0].suppressed), (vec![], Some(Suppression::Silence)));
    assert_eq!(text(&after).len(), 1);
    assert_eq!(run.state.silence, None);
}

#[test]
fn resolution_during_a_silence_is_not_notified() {
    let mut run = AlertRun::of(Alert::SandboxStuck);
    run.evaluate_after(0, &stuck(1));
    let until = run.now.after_ms(HOUR);
    run.request(AlertRequest::Silence { until, reason: "known".into(), by: "ann".into() });

    let over = run.evaluate_after(15_000, &stuck(0));

    assert_eq!(
        (over[0].kind.clone(), over[0].suppressed),
        (ChangeKind::Resolved, Some(Suppression::Silence))
    );
}

#[test]
fn silence_can_be_removed_and_cannot_end_in_the_past() {
    let mut run = AlertRun::of(Alert::SandboxStuck);
    let (by, reason) = ("ann".to_owned(), "known".to_owned());
    let over = AlertRequest::Silence { until: run.now, reason: reason.clone(), by: by.clone() };
    assert_eq!(apply_request(run.alert, &run.state, over, run.now), Err(AlertRefusal::SilenceAlreadyOver));

    run.request(AlertRequest::Silence { until: run.now.after_ms(HOUR), reason, by: by.clone() });
    run.request(AlertRequest::Unsilence { by: by.clone() });

    assert_eq!(text(&run.evaluate_after(0, &stuck(1))), [&ChangeKind::Fired]);
    let twice = apply_request(run.alert, &run.state, AlertRequest::Unsilence { by }, run.now).unwrap();
    assert_eq!(twice.changes, []);
}

#[test]
fn resolved_instances_are_dropped_after_the_cooldown() {
    let mut run = AlertRun::of(Alert::SandboxActiveHigh);
    run.evaluate_after(0, &active(51));
    run.evaluate_after(MINUTE, &active(0));
    assert!(matches!(run.state.instances[0].phase, Phase::Resolved { .. }));

    run.evaluate_after(HOUR, &active(0));

    assert_eq!(run.state.instances, []);
}

#[test]
fn configured_rule_replaces_the_default() {
    let rule = Rule { threshold: 3.0, sustained_ms: MINUTE, minimum: 0 };
    let mut run = AlertRun::with(Alert::SandboxLeakDetected, rule);

    let early = [run.evaluate_after(0, &active(4)), run.evaluate_for(45_000, &active(4))].concat();

    assert_eq!(early, []);
    assert_eq!(run.evaluate_after(15_000, &active(4)).len(), 1);
}
