//! Every alert: quiet at its threshold, firing above it, resolved below, and unmoved by what is not known.

use super::{Course, NOON};
use crate::{Alert, Event, Figures, Phase, Severity, Subject, What};

/// Figures that are at the threshold, and beyond it.
fn figures(alert: Alert) -> (Figures, Figures) {
    let rate = |value: f64, put: fn(&mut Figures, f64)| {
        let mut figures = Figures {
            executions: Some(100),
            outcomes: Some(100),
            stops: Some(100),
            starts: Some(100),
            ..Figures::default()
        };
        put(&mut figures, value);
        figures
    };
    let both = |at: f64, put: fn(&mut Figures, f64)| (rate(at, put), rate(at + 0.001, put));
    let count = |at: u64, put: fn(&mut Figures, u64)| {
        let mut pair = (Figures::default(), Figures::default());
        put(&mut pair.0, at);
        put(&mut pair.1, at + 1);
        pair
    };
    match alert {
        Alert::SandboxTimeoutHigh => both(0.05, |it, value| it.timeout_rate = Some(value)),
        Alert::SandboxFailureRateCritical => both(0.25, |it, value| it.failure_rate = Some(value)),
        Alert::SandboxFailureRateHigh => both(0.10, |it, value| it.failure_rate = Some(value)),
        Alert::StopFailureRateHigh => both(0.10, |it, value| it.stop_failure_rate = Some(value)),
        Alert::InactivityTimeoutRateHigh => both(0.20, |it, value| it.inactivity_rate = Some(value)),
        Alert::ProvisioningFailing => both(0.90, |it, value| it.start_failure_rate = Some(value)),
        Alert::ResourcePressure => both(0.80, |it, value| it.resources_used = Some(value)),
        Alert::QuotaExceeded => both(0.99, |it, value| it.quota_used = Some(value)),
        Alert::CleanupLate => both(2.0, |it, value| it.cleanup_periods_late = Some(value)),
        Alert::SandboxLeakDetected => count(20, |it, value| it.active = Some(value)),
        Alert::SandboxActiveHigh | Alert::ActiveHighSustained => {
            count(50, |it, value| it.active = Some(value))
        }
        Alert::SandboxStuck => count(0, |it, value| it.stuck = Some(value)),
        Alert::SandboxOrphaned => count(3, |it, value| it.orphaned = Some(value)),
        Alert::SandboxOrphanDetected => count(0, |it, value| it.orphaned = Some(value)),
        Alert::StatusDisagreesWithProbe => count(0, |it, value| it.disagreements = Some(value)),
        Alert::CleanupFailed => count(0, |it, value| it.cleanup_failures_in_a_row = Some(value)),
        Alert::CleanupFailing => count(2, |it, value| it.cleanup_failures_in_a_row = Some(value)),
        Alert::CleanupFoundTwice => count(0, |it, value| it.cleanup_found_twice = Some(value)),
        Alert::StateCorrupted => count(1, |it, value| it.corrupted = Some(value)),
        Alert::SandboxEvent => {
            let of = |events| Figures { events: Some(events), ..Figures::default() };
            (of(vec![]), of(vec![Subject { event: Event::Timeout, sandbox: "sbx_1".into() }]))
        }
    }
}

fn is_firing(course: &Course) -> bool {
    course.state.firing().count() == 1
}

#[test]
fn every_alert_fires_above_its_threshold_and_resolves_at_it() {
    for alert in Alert::ALL {
        let (at, above) = figures(*alert);
        let mut course = Course::of(*alert);
        let sustained_ms = alert.definition().rule.sustained_ms;

        assert_eq!(course.look(0, &at), [], "{alert} is above its threshold at it");
        let fired: Vec<_> =
            [course.look(1, &above), course.look_on(sustained_ms, &above)].into_iter().flatten().collect();

        assert_eq!(fired.iter().map(|it| &it.what).collect::<Vec<_>>(), [&What::Fired], "{alert}");
        assert!(is_firing(&course), "{alert}");
        let resolved = course.look(15_000, &at);
        assert_eq!(resolved.iter().map(|it| &it.what).collect::<Vec<_>>(), [&What::Resolved], "{alert}");
        assert_eq!(resolved[0].is_told(), alert.definition().end_is_told, "{alert}");
        assert!(matches!(course.state.instances[0].phase, Phase::Resolved { .. }), "{alert}");
    }
}

#[test]
fn every_alert_waits_for_as_long_as_it_says() {
    for alert in Alert::ALL {
        let sustained_ms = alert.definition().rule.sustained_ms;
        if sustained_ms == 0 {
            continue;
        }
        let (_, above) = figures(*alert);
        let mut course = Course::of(*alert);

        let early = [course.look(0, &above), course.look_on(sustained_ms - 15_000, &above)].concat();
        assert_eq!(early, [], "{alert} fires too early");
        assert_eq!(course.look(14_999, &above), [], "{alert} fires too early");

        assert_eq!(course.look(1, &above).len(), 1, "{alert} fires too late");
    }
}

#[test]
fn what_is_not_known_neither_fires_nor_resolves() {
    for alert in Alert::ALL {
        let (_, above) = figures(*alert);
        let mut course = Course::of(*alert);

        assert_eq!(course.look_on(3_600_000, &Figures::default()), [], "{alert} fires of nothing");
        course.look(0, &above);
        course.look_on(alert.definition().rule.sustained_ms, &above);
        assert!(is_firing(&course), "{alert}");
        assert_eq!(course.look(15_000, &Figures::default()), [], "{alert} resolves of nothing");
        assert!(is_firing(&course), "{alert}");
    }
}

#[test]
fn a_rate_of_too_few_means_nothing() {
    for alert in Alert::ALL {
        let minimum = alert.definition().rule.minimum;
        if minimum == 0 {
            continue;
        }
        let (_, above) = figures(*alert);
        let of = |counted| Figures {
            executions: Some(counted),
            outcomes: Some(counted),
            stops: Some(counted),
            starts: Some(counted),
            ..above.clone()
        };

        assert_eq!(Course::of(*alert).look(0, &of(minimum - 1)), [], "{alert}");
        assert_eq!(Course::of(*alert).look(0, &of(minimum)).len(), 1, "{alert}");
    }
}

#[test]
fn starts_that_came_to_nothing_are_enough_to_judge_by_where_nothing_runs() {
    let starts_alone = Figures {
        executions: Some(0),
        outcomes: Some(20),
        timeout_rate: Some(1.0),
        failure_rate: Some(1.0),
        ..Figures::default()
    };

    for (alert, fires) in [(Alert::SandboxFailureRateCritical, 1), (Alert::SandboxTimeoutHigh, 0)] {
        assert_eq!(Course::of(alert).look(0, &starts_alone).len(), fires, "{alert}");
    }
}

#[test]
fn an_alert_whose_traffic_has_stopped_is_over() {
    let (_, above) = figures(Alert::SandboxTimeoutHigh);
    let mut course = Course::of(Alert::SandboxTimeoutHigh);
    course.look(0, &above);

    let resolved = course.look(15_000, &Figures { executions: Some(0), ..above });

    assert_eq!(resolved[0].what, What::Resolved);
}

#[test]
fn severities_and_levels_are_as_promised() {
    let critical: Vec<_> =
        Alert::ALL.iter().filter(|it| it.definition().severity == Severity::Critical).collect();
    let first: Vec<_> = critical.iter().filter(|it| it.definition().level.number() == 1).collect();

    assert_eq!(
        first,
        [&&Alert::SandboxLeakDetected, &&Alert::SandboxFailureRateCritical, &&Alert::SandboxStuck]
    );
    assert_eq!(critical.len() - first.len(), 5);
    assert!(Alert::ALL.iter().all(|it| !it.definition().affects.is_empty()));
}

#[test]
fn each_sandbox_is_told_of_once() {
    let event = |event, sandbox: &str| Subject { event, sandbox: sandbox.into() };
    let of = |events| Figures { events: Some(events), ..Figures::default() };
    let (one, two) = (event(Event::Timeout, "sbx_1"), event(Event::Stuck, "sbx_2"));
    let mut course = Course::of(Alert::SandboxEvent);

    let first = course.look(0, &of(vec![one.clone()]));
    let second = course.look(15_000, &of(vec![one.clone(), two.clone()]));
    let third = course.look(15_000, &of(vec![two.clone()]));
    let again = course.look(15_000, &of(vec![one.clone(), two.clone()]));

    let told = |happened: &[crate::Happening]| -> Vec<Subject> {
        happened.iter().filter(|it| it.is_told()).filter_map(|it| it.subject.clone()).collect()
    };
    assert_eq!((told(&first), told(&second)), (vec![one], vec![two]));
    assert_eq!((told(&third), told(&again)), (vec![], vec![]));
    assert_eq!(third[0].what, What::Resolved);
    assert_eq!(course.now, NOON.after_ms(45_000));
}

#[test]
fn a_flood_of_events_is_bounded() {
    let mut course = Course::of(Alert::SandboxEvent);
    for round in 0..10 {
        let events = (0..500)
            .map(|number| Subject { event: Event::Timeout, sandbox: format!("sbx_{round}_{number}") });
        course.look(15_000, &Figures { events: Some(events.collect()), ..Figures::default() });
    }

    assert_eq!(course.state.instances.len(), 100);
}
