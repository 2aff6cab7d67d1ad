//! The models that are small enough for a debug build, and some mutants that they must catch.

use pinfold_lifecycle::Guard;
use pinfold_model_check::mutants::{self, Removed};
use pinfold_model_check::{Flaw, explore, models};

#[test]
fn every_invariant_holds_where_rows_become_unreadable() {
    let findings = explore(models::unreadable());

    assert_eq!(findings.violations, []);
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
fn stop_that_never_ends_is_caught() {
    let mutants = mutants::all();
    let livelock =
        mutants.iter().find(|mutant| mutant.removed == Removed::Guard(Guard::AttemptsAreBounded)).unwrap();

    let findings = livelock.run();

    let violated: Vec<_> = findings.violations.iter().map(|(invariant, _)| *invariant).collect();
    assert!(violated.contains(&"every stop ends"), "{violated:?}");
}

#[test]
fn instance_claimed_twice_is_caught() {
    let mutants = mutants::all();
    let twice = mutants.iter().find(|mutant| mutant.removed == Removed::Guard(Guard::ClaimedOnce)).unwrap();

    let findings = twice.run();

    let violated: Vec<_> = findings.violations.iter().map(|(invariant, _)| *invariant).collect();
    assert!(violated.contains(&"claimed once"), "{violated:?}");
}

#[test]
fn retry_before_absence_and_retry_after_a_stop_are_caught() {
    let mutants = mutants::all();
    for (guard, invariant) in
        [(Guard::RetryWaitsForAbsence, "only evidence frees"), (Guard::StopEndsRetries, "stop wins")]
    {
        let short_deadlines = mutants.iter().find(|mutant| mutant.removed == Removed::Guard(guard)).unwrap();

        let findings = short_deadlines.run();

        let violated: Vec<_> = findings.violations.iter().map(|(invariant, _)| *invariant).collect();
        assert!(violated.contains(&invariant), "{guard:?}: {violated:?}");
    }
}

#[test]
fn counterexample_is_described_step_by_step() {
    let mutants = mutants::all();
    let early =
        mutants.iter().find(|mutant| mutant.removed == Removed::Environment(Flaw::ActBeforeCommit)).unwrap();

    let findings = early.run();

    let steps = &findings.violations[0].1;
    assert!(steps[0].starts_with("t=0 node "), "{steps:#?}");
    assert!(steps[0].contains(" creates sandbox "), "{steps:#?}");
    assert!(steps.len() < 20, "{steps:#?}");
}
