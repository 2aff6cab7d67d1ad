//! The random numbers of one run, from one seed.

use std::sync::{Arc, Mutex, PoisonError};

/// One random stream, shared by everything in a run. The order of draws is part of the run.
#[derive(Clone)]
pub(crate) struct Random {
    rng: Arc<Mutex<fastrand::Rng>>,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self { rng: Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))) }
    }

    pub(crate) fn below(&self, bound: u64) -> u64 {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner).u64(0..bound.max(1))
    }

    pub(crate) fn between(&self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True with this probability, in thousandths.
    pub(crate) fn happens(&self, per_mille: u64) -> bool {
        self.below(1_000) < per_mille
    }

    pub(crate) fn one_of<T: Clone>(&self, options: &[T]) -> Option<T> {
        let index = usize::try_from(self.below(options.len() as u64)).unwrap_or(0);
        options.get(index).cloned()
    }
}
