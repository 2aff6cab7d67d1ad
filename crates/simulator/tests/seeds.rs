//! What the simulator itself promises: a seed decides everything, and a lifecycle with one guard taken out is caught.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

use pinfold_lifecycle::{Guard, Guards};
use pinfold_simulator::{Run, run};

/// Those that some run misses soon. The model checker shows the same of all of them.
const MISSED_SOON: [Guard; 15] = [
    Guard::OnlyAbsenceFrees,
    Guard::LaunchWaitsForAbsence,
    Guard::StopCoversStart,
    Guard::StopWins,
    Guard::CauseWrittenOnce,
    Guard::ReadyNeedsProbe,
    Guard::StaleEvidenceIsUnknown,
    Guard::StopAttemptExpires,
    Guard::BackoffIsKept,
    Guard::ForgetWaitsForAbsence,
    Guard::NoExecutionOutlivesItsBody,
    Guard::GivenOutProven,
    Guard::NextTryWaitsForAbsence,
    Guard::StopEndsTheTries,
    Guard::TriesAreBounded,
];

fn whole(seed: u64) -> Run {
    run(seed, Guards::default(), false).unwrap()
}

#[test]
fn the_same_seed_gives_the_same_history_and_another_seed_another() {
    for seed in 1..=10 {
        let (first, again, other) = (whole(seed), whole(seed), whole(seed + 1_000));

        assert_eq!((first.hash, first.commits), (again.hash, again.commits), "seed {seed}");
        assert_ne!(first.hash, other.hash);
    }
}

#[test]
fn a_traced_run_is_the_same_run() {
    let traced = run(7, Guards::default(), true).unwrap();

    assert_eq!(traced.hash, whole(7).hash);
    assert!(!traced.trace.is_empty());
}

#[test]
fn a_lifecycle_without_one_of_its_guards_is_caught_and_replays_by_its_seed() {
    for guard in MISSED_SOON {
        let broken = |seed| run(seed, Guards::without(guard), false).unwrap();

        let caught = (1..=2_000).map(broken).find(|run| run.violation.is_some());

        let caught = caught.unwrap_or_else(|| panic!("nobody misses {guard:?}"));
        println!("{guard:?}: seed {}", caught.seed);
        assert_eq!(broken(caught.seed).violation, caught.violation, "{guard:?} does not replay");
    }
}
