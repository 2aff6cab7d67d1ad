//! Tests of the simulator itself: a seed decides everything, and a lifecycle without one of its guards is caught.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

use pinfold_lifecycle::{Guard, Guards};
use pinfold_simulator::{Run, run};

/// Guards whose removal is caught within few seeds. The model checker covers all of them.
const MISSED_SOON: [Guard; 16] = [
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
    Guard::NoExecutionOutlivesItsInstance,
    Guard::ClaimNeedsFreshProbe,
    Guard::RetryWaitsForAbsence,
    Guard::StopEndsRetries,
    Guard::RetriesAreBounded,
    Guard::CollectingKeepsOutcome,
];

fn whole(seed: u64) -> Run {
    run(seed, Guards::default(), false).unwrap()
}

#[test]
fn same_seed_gives_the_same_history_and_another_seed_another() {
    for seed in 1..=10 {
        let (first, repeated, other) = (whole(seed), whole(seed), whole(seed + 1_000));

        assert_eq!((first.hash, first.commits), (repeated.hash, repeated.commits), "seed {seed}");
        assert_ne!(first.hash, other.hash);
    }
}

/// In these runs several requests wait in the queue of one node, and the order in which they are woken matters.
#[test]
fn requests_that_wait_together_are_woken_in_the_same_order() {
    for seed in [773, 893, 1_121, 1_413] {
        let first = whole(seed);

        for _ in 0..5 {
            assert_eq!(whole(seed).hash, first.hash, "seed {seed}");
        }
    }
}

#[test]
fn a_traced_run_is_the_same_run() {
    let traced = run(7, Guards::default(), true).unwrap();

    assert_eq!(traced.hash, whole(7).hash);
    assert!(!traced.trace.is_empty());
}

#[test]
fn removed_guard_is_caught_and_replays_by_its_seed() {
    for guard in MISSED_SOON {
        let broken = |seed| run(seed, Guards::without(guard), false).unwrap();

        let caught = (1..=2_000).map(broken).find(|run| run.violation.is_some());

        let caught = caught.unwrap_or_else(|| panic!("no seed catches the removal of {guard:?}"));
        println!("{guard:?}: seed {}", caught.seed);
        assert_eq!(broken(caught.seed).violation, caught.violation, "{guard:?} does not replay");
    }
}
