//! Every alert: inactive at its threshold, firing above it, resolved below, unchanged by unknown values.

use super::{AlertRun, NOON};
use crate::{Alert, AlertInputs, AlertSubject, ChangeKind, Phase, SandboxEventKind, Severity};

/// Values at the threshold, and beyond it.
fn inputs(alert: Alert) -> (AlertInputs, AlertInputs) {
    let rate = |value: f64, put: fn(&mut AlertInputs, f64)| {
        let mut inputs = AlertInputs {
            executions: Some(100),
            outcomes: Some(100),
            stops: Some(100),
            starts: Some(100),
            ..AlertInputs::default()
        };
        put(&mut inputs, value);
        inputs
    };
    let both = |at: f64, put: fn(&mut AlertInputs, f64)| (rate(at, put), rate(at + 0.001, put));
    let count = |at: u64, put: fn(&mut AlertInputs, u64)| {
        let mut pair = (AlertInputs::default(), AlertInputs::default());
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
        Alert::WrongTokens => count(60, |it, value| it.wrong_tokens = Some(value)),
        Alert::SandboxEvent => {
            let of = |events| AlertInputs { events: Some(events), ..AlertInputs::default() };
            (of(vec![]), of(vec![AlertSubject { event: SandboxEventKind::Timeout, sandbox: "sbx_1".into() }]))
        }
    }
}

fn is_firing(run: &AlertRun) -> bool {
    run.state.firing().count() == 1
}

#[test]
fn every_alert_fires_above_its_threshold_and_resolves_at_it() {
    for alert in Alert::ALL {
        let (at, above) = inputs(*alert);
        let mut run = AlertRun::of(*alert);
        let sustained_ms = alert.definition().rule.sustained_ms;

        assert_eq!(run.evaluate_after(0, &at), [], "{alert} is above its threshold at it");
        let fired: Vec<_> = [run.evaluate_after(1, &above), run.evaluate_for(sustained_ms, &above)]
            .into_iter()
            .flatten()
            .collect();

        assert_eq!(fired.iter().map(|it| &it.kind).collect::<Vec<_>>(), [&ChangeKind::Fired], "{alert}");
        assert!(is_firing(&run), "{alert}");
        let resolved = run.evaluate_after(15_000, &at);
        assert_eq!(
            resolved.iter().map(|it| &it.kind).collect::<Vec<_>>(),
            [&ChangeKind::Resolved],
            "{alert}"
        );
        assert_eq!(resolved[0].notifies(), alert.definition().notifies_end, "{alert}");
        assert!(matches!(run.state.instances[0].phase, Phase::Resolved { .. }), "{alert}");
    }
}

#[test]
fn every_alert_fires_only_after_its_sustained_time() {
    for alert in Alert::ALL {
        let sustained_ms = alert.definition().rule.sustained_ms;
        if sustained_ms == 0 {
            continue;
        }
        let (_, above) = inputs(*alert);
        let mut run = AlertRun::of(*alert);

        let early = [run.evaluate_after(0, &above), run.evaluate_for(sustained_ms - 15_000, &above)].concat();
        assert_eq!(early, [], "{alert} fires too early");
        assert_eq!(run.evaluate_after(14_999, &above), [], "{alert} fires too early");

        assert_eq!(run.evaluate_after(1, &above).len(), 1, "{alert} fires too late");
    }
}

#[test]
fn unknown_values_neither_fire_nor_resolve() {
    for alert in Alert::ALL {
        let (_, above) = inputs(*alert);
        let mut run = AlertRun::of(*alert);

        assert_eq!(run.evaluate_for(3_600_000, &AlertInputs::default()), [], "{alert} fires of nothing");
        run.evaluate_after(0, &above);
        run.evaluate_for(alert.definition().rule.sustained_ms, &above);
        assert!(is_firing(&run), "{alert}");
        assert_eq!(run.evaluate_after(15_000, &AlertInputs::default()), [], "{alert} resolves of nothing");
        assert!(is_firing(&run), "{alert}");
    }
}

#[test]
fn rate_of_too_few_events_is_ignored() {
    for alert in Alert::ALL {
        let minimum = alert.definition().rule.minimum;
        if minimum == 0 {
            continue;
        }
        let (_, above) = inputs(*alert);
        let of = |count| AlertInputs {
            executions: Some(count),
            outcomes: Some(count),
            stops: Some(count),
            starts: Some(count),
            ..above.clone()
        };

        assert_eq!(AlertRun::of(*alert).evaluate_after(0, &of(minimum - 1)), [], "{alert}");
        assert_eq!(AlertRun::of(*alert).evaluate_after(0, &of(minimum)).len(), 1, "{alert}");
    }
}

#[test]
fn failed_starts_alone_suffice_for_a_failure_rate() {
    let starts_alone = AlertInputs {
        executions: Some(0),
        outcomes: Some(20),
        timeout_rate: Some(1.0),
        failure_rate: Some(1.0),
        ..AlertInputs::default()
    };

    for (alert, fires) in [(Alert::SandboxFailureRateCritical, 1), (Alert::SandboxTimeoutHigh, 0)] {
        assert_eq!(AlertRun::of(alert).evaluate_after(0, &starts_alone).len(), fires, "{alert}");
    }
}

#[test]
fn alert_without_traffic_resolves() {
    let (_, above) = inputs(Alert::SandboxTimeoutHigh);
    let mut run = AlertRun::of(Alert::SandboxTimeoutHigh);
    run.evaluate_after(0, &above);

    let resolved = run.evaluate_after(15_000, &AlertInputs { executions: Some(0), ..above });

    assert_eq!(resolved[0].kind, ChangeKind::Resolved);
}

#[test]
fn severities_and_levels_are_as_documented() {
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
fn each_sandbox_is_notified_once() {
    let event = |event, sandbox: &str| AlertSubject { event, sandbox: sandbox.into() };
    let of = |events| AlertInputs { events: Some(events), ..AlertInputs::default() };
    let (one, two) = (event(SandboxEventKind::Timeout, "sbx_1"), event(SandboxEventKind::Stuck, "sbx_2"));
    let mut run = AlertRun::of(Alert::SandboxEvent);

    let first = run.evaluate_after(0, &of(vec![one.clone()]));
    let second = run.evaluate_after(15_000, &of(vec![one.clone(), two.clone()]));
    let third = run.evaluate_after(15_000, &of(vec![two.clone()]));
    let again = run.evaluate_after(15_000, &of(vec![one.clone(), two.clone()]));

    let text = |happened: &[crate::AlertChange]| -> Vec<AlertSubject> {
        happened.iter().filter(|it| it.notifies()).filter_map(|it| it.subject.clone()).collect()
    };
    assert_eq!((text(&first), text(&second)), (vec![one], vec![two]));
    assert_eq!((text(&third), text(&again)), (vec![], vec![]));
    assert_eq!(third[0].kind, ChangeKind::Resolved);
    assert_eq!(run.now, NOON.after_ms(45_000));
}

#[test]
fn a_flood_of_events_is_bounded() {
    let mut run = AlertRun::of(Alert::SandboxEvent);
    for round in 0..10 {
        let events = (0..500).map(|number| AlertSubject {
            event: SandboxEventKind::Timeout,
            sandbox: format!("sbx_{round}_{number}"),
        });
        run.evaluate_after(15_000, &AlertInputs { events: Some(events.collect()), ..AlertInputs::default() });
    }

    assert_eq!(run.state.instances.len(), 100);
}
