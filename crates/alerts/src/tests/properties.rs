//! Properties for random values at random times. The message of a failing run contains its seed.

use super::{AlertRun, active, stuck, text};
use crate::{Alert, AlertChange, AlertInputs, AlertRequest, AlertState, ChangeKind, NotificationPolicy};

const SEEDS: u64 = 300;
const STEPS: usize = 200;

/// Evaluates random values at random times, with occasional requests.
fn run(
    seed: u64,
    alert: Alert,
    inputs: fn(&mut fastrand::Rng) -> AlertInputs,
) -> (AlertRun, Vec<AlertChange>) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut run = AlertRun::of(alert);
    let mut happened = Vec::new();
    for _ in 0..STEPS {
        let later_ms = random.choice([15_000, 15_000, 15_000, 60_000, 600_000, 3_600_000]).unwrap();
        happened.extend(run.evaluate_after(later_ms, &inputs(&mut random)));
        let until = run.now.after_ms(random.u64(1..7_200_000));
        let request = match random.u8(0..40) {
            0 => AlertRequest::Acknowledge { by: "ann".into() },
            1 => AlertRequest::Silence { until, reason: "known".into(), by: "ann".into() },
            2 => AlertRequest::Unsilence { by: "ann".into() },
            _ => continue,
        };
        if let Ok(stepped) = crate::apply_request(alert, &run.state, request, run.now) {
            run.state = stepped.state;
        }
    }
    (run, happened)
}

fn some_stuck(random: &mut fastrand::Rng) -> AlertInputs {
    match random.u8(0..10) {
        0 => AlertInputs::default(),
        1..4 => stuck(0),
        _ => stuck(random.u64(1..9)),
    }
}

fn some_active(random: &mut fastrand::Rng) -> AlertInputs {
    match random.u8(0..10) {
        0 => AlertInputs::default(),
        1..4 => active(random.u64(0..50)),
        _ => active(random.u64(51..90)),
    }
}

fn runs() -> impl Iterator<Item = (u64, AlertRun, Vec<AlertChange>)> {
    (0..SEEDS).flat_map(|seed| {
        let stuck = run(seed, Alert::SandboxStuck, some_stuck);
        let active = run(seed, Alert::SandboxActiveHigh, some_active);
        [(seed, stuck.0, stuck.1), (seed, active.0, active.1)]
    })
}

#[test]
fn firing_is_notified_at_most_once_per_cooldown_and_level() {
    for (seed, _, happened) in runs() {
        let calls: Vec<_> =
            happened.iter().filter(|it| it.notifies() && it.kind != ChangeKind::Resolved).collect();
        for pair in calls.windows(2) {
            let apart = pair[1].at.ms_since(pair[0].at) >= NotificationPolicy::default().cooldown_ms;
            assert!(apart || pair[1].kind == ChangeKind::Escalated, "seed {seed}: {pair:?}");
        }
    }
}

#[test]
fn fired_and_resolved_alternate() {
    for (seed, run, happened) in runs() {
        let turns = happened.iter().filter(|it| matches!(it.kind, ChangeKind::Fired | ChangeKind::Resolved));
        for (number, change) in turns.enumerate() {
            let expected = if number % 2 == 0 { ChangeKind::Fired } else { ChangeKind::Resolved };
            assert_eq!(change.kind, expected, "seed {seed}");
        }
        assert_eq!(run.alert, happened[0].alert);
    }
}

#[test]
fn resolution_is_notified_only_after_a_notification() {
    for (seed, _, happened) in runs() {
        let mut is_called = false;
        for change in &happened {
            match change.kind {
                ChangeKind::Resolved => {
                    assert!(!change.notifies() || is_called, "seed {seed}: {change:?}");
                    is_called = false;
                }
                _ => is_called |= change.notifies(),
            }
        }
    }
}

#[test]
fn firing_alert_is_notified_as_soon_as_allowed() {
    for (seed, mut run, _) in runs() {
        if run.state.firing().next().is_none() {
            continue;
        }
        let is_acknowledged = run.state.firing().any(|(_, firing)| firing.acknowledged.is_some());
        let inputs = if run.alert == Alert::SandboxStuck { stuck(1) } else { active(60) };

        let later = run.evaluate_after(3 * 3_600_000, &inputs);

        assert_eq!(text(&later).is_empty(), is_acknowledged, "seed {seed}");
    }
}

#[test]
fn state_is_bounded_and_round_trips() {
    for (seed, run, _) in runs() {
        let written = serde_json::to_string(&run.state).unwrap();

        assert_eq!(serde_json::from_str::<AlertState>(&written).unwrap(), run.state, "seed {seed}");
        assert!(written.len() < 600, "seed {seed}: {written}");
    }
}
