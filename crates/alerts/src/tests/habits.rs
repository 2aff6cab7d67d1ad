//! How often somebody is called: cooldown, reminders, escalation, acknowledgement, silence.

use super::{Course, HOUR, MINUTE, active, stuck, told};
use crate::{Alert, Ask, Figures, Level, Phase, Refusal, Rule, Untold, What, ask};

fn acknowledge() -> Ask {
    Ask::Acknowledge { by: "ann".into() }
}

#[test]
fn a_moment_below_begins_the_wait_anew() {
    let mut course = Course::of(Alert::SandboxLeakDetected);

    course.look(0, &active(21));
    course.look_on(4 * MINUTE, &active(21));
    course.look(15_000, &active(20));
    let early = course.look_on(5 * MINUTE, &active(21));

    assert_eq!(early, []);
    assert_eq!(course.look(15_000, &active(21)).len(), 1);
}

#[test]
fn nobody_knows_what_was_while_nobody_looked() {
    let mut course = Course::of(Alert::SandboxLeakDetected);
    course.look(0, &active(21));

    assert_eq!(course.look(HOUR, &active(21)), []);
    assert_eq!(course.look_on(5 * MINUTE, &active(21)).len(), 1);
}

#[test]
fn the_wait_goes_on_after_a_look_that_told_nothing() {
    let mut course = Course::of(Alert::SandboxLeakDetected);
    course.look(0, &active(21));
    course.look_on(4 * MINUTE, &active(21));

    course.look(15_000, &Figures::default());
    let fired = course.look_on(MINUTE, &active(21));

    assert_eq!(fired.len(), 1);
}

#[test]
fn what_comes_and_goes_is_told_once_in_a_cooldown() {
    let mut course = Course::of(Alert::SandboxActiveHigh);
    let mut happened = Vec::new();

    for _ in 0..100 {
        happened.extend(course.look(15_000, &active(51)));
        happened.extend(course.look(15_000, &active(50)));
    }

    assert_eq!(told(&happened), [&What::Fired, &What::Resolved]);
    assert_eq!(happened.len(), 200);
    assert!(happened[2..].iter().all(|it| it.untold == Some(Untold::Cooldown)));
}

#[test]
fn what_fires_again_after_the_cooldown_is_told_again() {
    let mut course = Course::of(Alert::SandboxActiveHigh);
    course.look(0, &active(51));
    course.look(MINUTE, &active(50));

    let soon = course.look(58 * MINUTE, &active(51));
    course.look(MINUTE - 1, &active(50));
    let later = course.look(1, &active(51));

    assert_eq!((told(&soon), told(&later)), (vec![], vec![&What::Fired]));
}

#[test]
fn a_wait_that_came_to_nothing_does_not_end_the_cooldown() {
    let rule = Rule { threshold: 3.0, sustained_ms: MINUTE, minimum: 0 };
    let mut course = Course::with(Alert::SandboxLeakDetected, rule);
    course.look_on(2 * MINUTE, &active(4));
    course.look(15_000, &active(0));

    course.look(15_000, &active(4));
    course.look(15_000, &active(0));
    let again = course.look_on(2 * MINUTE, &active(4));

    assert_eq!(again.iter().map(|it| it.untold).collect::<Vec<_>>(), [Some(Untold::Cooldown)]);
}

#[test]
fn what_fired_within_the_cooldown_and_goes_on_is_told_when_it_is_over() {
    let mut course = Course::of(Alert::SandboxActiveHigh);
    course.look(0, &active(51));
    course.look(MINUTE, &active(50));

    let within = course.look_on(58 * MINUTE, &active(51));
    let after = course.look_on(MINUTE, &active(51));

    assert_eq!((told(&within), told(&after)), (vec![], vec![&What::Repeated]));
    assert_eq!(told(&course.look(15_000, &active(0))), [&What::Resolved]);
}

#[test]
fn who_was_called_is_reminded_once_in_a_cooldown() {
    let mut course = Course::of(Alert::SandboxActiveHigh);

    let happened = [course.look(0, &active(51)), course.look_on(3 * HOUR, &active(51))].concat();

    assert_eq!(told(&happened), [&What::Fired, &What::Repeated, &What::Repeated, &What::Repeated]);
}

#[test]
fn a_critical_alert_that_nobody_acknowledges_goes_further() {
    let mut course = Course::of(Alert::SandboxStuck);

    let happened = [course.look(0, &stuck(1)), course.look_on(3 * HOUR, &stuck(1))].concat();

    let escalated: Vec<_> =
        happened.iter().filter(|it| it.what == What::Escalated).map(|it| (it.level, it.at)).collect();
    let at = |minutes: u64| super::NOON.after_ms(minutes * MINUTE);
    assert_eq!(escalated, [(Level::Infrastructure, at(30)), (Level::PlatformSupport, at(60))]);
    assert_eq!(course.look(15_000, &stuck(0))[0].level, Level::PlatformSupport);
}

#[test]
fn a_warning_does_not_go_further() {
    let mut course = Course::of(Alert::SandboxActiveHigh);

    let happened = [course.look(0, &active(51)), course.look_on(5 * HOUR, &active(51))].concat();

    assert!(happened.iter().all(|it| it.level == Level::AgentTeam));
}

#[test]
fn who_comes_late_escalates_once_and_to_the_right_level() {
    let mut course = Course::of(Alert::SandboxStuck);
    course.look(0, &stuck(1));

    let late = course.look(70 * MINUTE, &stuck(1));

    assert_eq!((told(&late), late[0].level), (vec![&What::Escalated], Level::PlatformSupport));
}

#[test]
fn nobody_else_is_called_about_what_is_acknowledged() {
    let mut course = Course::of(Alert::SandboxStuck);
    course.look(0, &stuck(1));

    course.ask(acknowledge());
    let quiet = course.look_on(5 * HOUR, &stuck(2));
    let over = course.look(15_000, &stuck(0));
    let again = course.look(15_000, &stuck(1));

    assert_eq!((quiet, told(&over)), (vec![], vec![&What::Resolved]));
    assert_eq!(told(&again), [&What::Fired]);
    assert_eq!(course.state.firing().next().unwrap().1.acknowledged, None);
}

#[test]
fn the_first_acknowledgement_counts_and_what_does_not_fire_has_none() {
    let mut course = Course::of(Alert::SandboxStuck);
    assert_eq!(ask(course.alert, &course.state, acknowledge(), course.now), Err(Refusal::NotFiring));
    course.look(0, &stuck(1));
    course.ask(acknowledge());

    let again = ask(course.alert, &course.state, Ask::Acknowledge { by: "bob".into() }, course.now).unwrap();

    assert_eq!((again.state, again.happened), (course.state, vec![]));
}

#[test]
fn nobody_is_called_during_a_silence_and_somebody_is_after_it() {
    let mut course = Course::of(Alert::SandboxStuck);
    let until = course.now.after_ms(HOUR);
    course.ask(Ask::Silence { until, reason: "moving house".into(), by: "ann".into() });

    let silent = [course.look(0, &stuck(1)), course.look_on(HOUR - 15_000, &stuck(1))].concat();
    let after = course.look(15_000, &stuck(1));

    assert_eq!((told(&silent), silent[0].untold), (vec![], Some(Untold::Silence)));
    assert_eq!(told(&after).len(), 1);
    assert_eq!(course.state.silence, None);
}

#[test]
fn an_end_during_a_silence_is_kept_quiet_too() {
    let mut course = Course::of(Alert::SandboxStuck);
    course.look(0, &stuck(1));
    let until = course.now.after_ms(HOUR);
    course.ask(Ask::Silence { until, reason: "known".into(), by: "ann".into() });

    let over = course.look(15_000, &stuck(0));

    assert_eq!((over[0].what.clone(), over[0].untold), (What::Resolved, Some(Untold::Silence)));
}

#[test]
fn a_silence_can_be_taken_back_and_cannot_end_before_it_begins() {
    let mut course = Course::of(Alert::SandboxStuck);
    let (by, reason) = ("ann".to_owned(), "known".to_owned());
    let over = Ask::Silence { until: course.now, reason: reason.clone(), by: by.clone() };
    assert_eq!(ask(course.alert, &course.state, over, course.now), Err(Refusal::OverBeforeItBegins));

    course.ask(Ask::Silence { until: course.now.after_ms(HOUR), reason, by: by.clone() });
    course.ask(Ask::Unsilence { by: by.clone() });

    assert_eq!(told(&course.look(0, &stuck(1))), [&What::Fired]);
    let twice = ask(course.alert, &course.state, Ask::Unsilence { by }, course.now).unwrap();
    assert_eq!(twice.happened, []);
}

#[test]
fn what_is_long_over_is_forgotten() {
    let mut course = Course::of(Alert::SandboxActiveHigh);
    course.look(0, &active(51));
    course.look(MINUTE, &active(0));
    assert!(matches!(course.state.instances[0].phase, Phase::Resolved { .. }));

    course.look(HOUR, &active(0));

    assert_eq!(course.state.instances, []);
}

#[test]
fn a_rule_that_was_decided_otherwise_holds() {
    let rule = Rule { threshold: 3.0, sustained_ms: MINUTE, minimum: 0 };
    let mut course = Course::with(Alert::SandboxLeakDetected, rule);

    let early = [course.look(0, &active(4)), course.look_on(45_000, &active(4))].concat();

    assert_eq!(early, []);
    assert_eq!(course.look(15_000, &active(4)).len(), 1);
}
