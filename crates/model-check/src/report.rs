//! Runs the checker over one world, and tells what it found.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model, Path};

use crate::{Action, Promise, Small, World};

const THREADS: usize = 2;

/// What a walk through one world came to.
#[derive(Debug)]
pub struct Findings {
    pub name: &'static str,
    pub states: usize,
    pub depth: usize,
    pub took: Duration,
    /// The promises that were broken, each with the steps that led there.
    pub breaches: Vec<(&'static str, Vec<String>)>,
}

/// Walks through all of it, or up to the first promise that is broken.
#[must_use]
pub fn explore(small: Small) -> Findings {
    walk(small, HasDiscoveries::AnyFailures)
}

/// Walks until this promise is broken, or through all of it.
#[must_use]
pub fn first_breach(small: Small, promise: Promise) -> Findings {
    walk(small, HasDiscoveries::AnyOf(BTreeSet::from([promise.name()])))
}

#[expect(clippy::disallowed_methods, reason = "how long the walk took is printed, and decides nothing")]
fn walk(small: Small, until: HasDiscoveries) -> Findings {
    let began = Instant::now();
    let name = small.name;
    let checker = small.checker().threads(THREADS).finish_when(until).spawn_bfs().join();
    let breaches = checker.discoveries().into_iter().map(|(promise, path)| (promise, tell(path)));
    Findings {
        name,
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        took: began.elapsed(),
        breaches: breaches.collect(),
    }
}

fn tell(path: Path<World, Action>) -> Vec<String> {
    path.into_vec().iter().filter_map(|(world, action)| Some(action.as_ref()?.tell(world))).collect()
}
