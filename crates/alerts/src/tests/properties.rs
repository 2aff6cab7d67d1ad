//! What holds for any figures at any times. The seed of a failing run is in its message.

use super::{Course, active, stuck, told};
use crate::{Alert, AlertState, Ask, Figures, Habits, Happening, What};

const SEEDS: u64 = 300;
const STEPS: usize = 200;

/// Looks at random figures at random times, with somebody who meddles now and then.
fn run(seed: u64, alert: Alert, figures: fn(&mut fastrand::Rng) -> Figures) -> (Course, Vec<Happening>) {
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut course = Course::of(alert);
    let mut happened = Vec::new();
    for _ in 0..STEPS {
        let later_ms = chance.choice([15_000, 15_000, 15_000, 60_000, 600_000, 3_600_000]).unwrap();
        happened.extend(course.look(later_ms, &figures(&mut chance)));
        let until = course.now.after_ms(chance.u64(1..7_200_000));
        let wish = match chance.u8(0..40) {
            0 => Ask::Acknowledge { by: "ann".into() },
            1 => Ask::Silence { until, reason: "known".into(), by: "ann".into() },
            2 => Ask::Unsilence { by: "ann".into() },
            _ => continue,
        };
        if let Ok(stepped) = crate::ask(alert, &course.state, wish, course.now) {
            course.state = stepped.state;
        }
    }
    (course, happened)
}

fn some_stuck(chance: &mut fastrand::Rng) -> Figures {
    match chance.u8(0..10) {
        0 => Figures::default(),
        1..4 => stuck(0),
        _ => stuck(chance.u64(1..9)),
    }
}

fn some_active(chance: &mut fastrand::Rng) -> Figures {
    match chance.u8(0..10) {
        0 => Figures::default(),
        1..4 => active(chance.u64(0..50)),
        _ => active(chance.u64(51..90)),
    }
}

fn runs() -> impl Iterator<Item = (u64, Course, Vec<Happening>)> {
    (0..SEEDS).flat_map(|seed| {
        let stuck = run(seed, Alert::SandboxStuck, some_stuck);
        let active = run(seed, Alert::SandboxActiveHigh, some_active);
        [(seed, stuck.0, stuck.1), (seed, active.0, active.1)]
    })
}

#[test]
fn the_same_firing_is_told_at_most_once_in_a_cooldown_at_one_level() {
    for (seed, _, happened) in runs() {
        let calls: Vec<_> = happened.iter().filter(|it| it.is_told() && it.what != What::Resolved).collect();
        for pair in calls.windows(2) {
            let apart = pair[1].at.ms_since(pair[0].at) >= Habits::default().cooldown_ms;
            assert!(apart || pair[1].what == What::Escalated, "seed {seed}: {pair:?}");
        }
    }
}

#[test]
fn fired_and_resolved_take_turns() {
    for (seed, course, happened) in runs() {
        let turns = happened.iter().filter(|it| matches!(it.what, What::Fired | What::Resolved));
        for (number, happening) in turns.enumerate() {
            let expected = if number % 2 == 0 { What::Fired } else { What::Resolved };
            assert_eq!(happening.what, expected, "seed {seed}");
        }
        assert_eq!(course.alert, happened[0].alert);
    }
}

#[test]
fn an_all_clear_follows_only_a_call() {
    for (seed, _, happened) in runs() {
        let mut is_called = false;
        for happening in &happened {
            match happening.what {
                What::Resolved => {
                    assert!(!happening.is_told() || is_called, "seed {seed}: {happening:?}");
                    is_called = false;
                }
                _ => is_called |= happening.is_told(),
            }
        }
    }
}

#[test]
fn what_fires_is_told_as_soon_as_it_may_be() {
    for (seed, mut course, _) in runs() {
        if course.state.firing().next().is_none() {
            continue;
        }
        let is_acknowledged = course.state.firing().any(|(_, firing)| firing.acknowledged.is_some());
        let figures = if course.alert == Alert::SandboxStuck { stuck(1) } else { active(60) };

        let later = course.look(3 * 3_600_000, &figures);

        assert_eq!(told(&later).is_empty(), is_acknowledged, "seed {seed}");
    }
}

#[test]
fn a_state_stays_small_and_comes_back_as_it_was_written() {
    for (seed, course, _) in runs() {
        let written = serde_json::to_string(&course.state).unwrap();

        assert_eq!(serde_json::from_str::<AlertState>(&written).unwrap(), course.state, "seed {seed}");
        assert!(written.len() < 600, "seed {seed}: {written}");
    }
}
