//! Runs the checker over one model and reports the result.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model, Path};

use crate::{Action, Invariant, SmallModel, World};

const THREADS: usize = 2;

/// The result of checking one model.
#[derive(Debug)]
pub struct Findings {
    pub name: &'static str,
    pub states: usize,
    pub depth: usize,
    pub took: Duration,
    /// The violated invariants, each with the actions that led there.
    pub violations: Vec<(&'static str, Vec<String>)>,
}

/// Explores all states, or stops at the first violation.
#[must_use]
pub fn explore(small: SmallModel) -> Findings {
    run_checker(small, HasDiscoveries::AnyFailures)
}

/// Explores until this invariant is violated, or all states.
#[must_use]
pub fn find_violation(small: SmallModel, invariant: Invariant) -> Findings {
    run_checker(small, HasDiscoveries::AnyOf(BTreeSet::from([invariant.name()])))
}

#[expect(clippy::disallowed_methods, reason = "the duration is only printed")]
fn run_checker(small: SmallModel, until: HasDiscoveries) -> Findings {
    let began = Instant::now();
    let name = small.name;
    let checker = small.checker().threads(THREADS).finish_when(until).spawn_bfs().join();
    let violations = checker.discoveries().into_iter().map(|(invariant, path)| (invariant, describe(path)));
    Findings {
        name,
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        took: began.elapsed(),
        violations: violations.collect(),
    }
}

fn describe(path: Path<World, Action>) -> Vec<String> {
    path.into_vec().iter().filter_map(|(world, action)| Some(action.as_ref()?.describe(world))).collect()
}
