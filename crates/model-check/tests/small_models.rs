//! The models that are small enough for a debug build, and a few guards that must be missed there.

use pinfold_lifecycle::Guard;
use pinfold_model_check::mutants::{self, Removed};
use pinfold_model_check::{Flaw, explore, models};

#[test]
fn every_promise_is_kept_where_rows_become_unreadable() {
    let findings = explore(models::unreadable());

    assert_eq!(findings.breaches, []);
    assert!(findings.states > 10_000);
}

#[test]
fn every_guard_has_a_mutant() {
    let mutants = mutants::all();

    for guard in Guard::ALL {
        assert!(mutants.iter().any(|mutant| mutant.removed == Removed::Guard(guard)), "{guard:?}");
    }
}

#[test]
fn a_stop_that_never_ends_is_caught_as_time_goes_by() {
    let mutants = mutants::all();
    let livelock =
        mutants.iter().find(|mutant| mutant.removed == Removed::Guard(Guard::AttemptsAreBounded)).unwrap();

    let findings = livelock.try_out();

    let broken: Vec<_> = findings.breaches.iter().map(|(promise, _)| *promise).collect();
    assert!(broken.contains(&"what is being ended ends"), "{broken:?}");
}

#[test]
fn a_body_that_is_given_to_two_is_caught() {
    let mutants = mutants::all();
    let twice = mutants.iter().find(|mutant| mutant.removed == Removed::Guard(Guard::GivenOutOnce)).unwrap();

    let findings = twice.try_out();

    let broken: Vec<_> = findings.breaches.iter().map(|(promise, _)| *promise).collect();
    assert!(broken.contains(&"given out once"), "{broken:?}");
}

#[test]
fn a_try_that_does_not_wait_for_the_last_body_and_one_after_a_stop_are_caught() {
    let mutants = mutants::all();
    for (guard, promise) in
        [(Guard::NextTryWaitsForAbsence, "only evidence frees"), (Guard::StopEndsTheTries, "stop wins")]
    {
        let hasty = mutants.iter().find(|mutant| mutant.removed == Removed::Guard(guard)).unwrap();

        let findings = hasty.try_out();

        let broken: Vec<_> = findings.breaches.iter().map(|(promise, _)| *promise).collect();
        assert!(broken.contains(&promise), "{guard:?}: {broken:?}");
    }
}

#[test]
fn a_counterexample_is_told_step_by_step() {
    let mutants = mutants::all();
    let early =
        mutants.iter().find(|mutant| mutant.removed == Removed::Footing(Flaw::ActBeforeCommit)).unwrap();

    let findings = early.try_out();

    let steps = &findings.breaches[0].1;
    assert!(steps[0].starts_with("t=0 node "), "{steps:#?}");
    assert!(steps[0].contains(" creates sandbox "), "{steps:#?}");
    assert!(steps.len() < 20, "{steps:#?}");
}
