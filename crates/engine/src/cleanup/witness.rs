//! Whoever counts what cleanup does, and where it is told.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use pinfold_store::CameTo;

use super::Layer;

/// It must not wait for anything.
pub trait Witness: Send + Sync + 'static {
    /// A run that was more than a look has ended, so long after it began.
    fn ran(&self, layer: Layer, took_ms: u64, came_to: &CameTo);

    /// Whoever was at a run is gone, and nobody knows what it came to.
    fn lost(&self, layer: Layer);

    /// So many records were past retention and are gone, whatever they went by.
    fn forgot(&self, records: u64);
}

/// Where an engine tells its witness, once it has one.
#[derive(Default)]
pub(crate) struct Stand {
    witness: OnceLock<Arc<dyn Witness>>,
    /// Records that went before there was anybody to tell.
    untold: AtomicU64,
}

impl Stand {
    /// The first one stays the only one.
    pub(super) fn call(&self, witness: Arc<dyn Witness>) {
        let _ = self.witness.set(witness);
        self.forgot(0);
    }

    pub(super) fn ran(&self, layer: Layer, took_ms: u64, came_to: &CameTo) {
        if let Some(witness) = self.witness.get() {
            witness.ran(layer, took_ms, came_to);
        }
    }

    pub(super) fn lost(&self, layer: Layer) {
        if let Some(witness) = self.witness.get() {
            witness.lost(layer);
        }
    }

    pub(crate) fn forgot(&self, records: u64) {
        self.untold.fetch_add(records, Ordering::SeqCst);
        if let Some(witness) = self.witness.get() {
            let untold = self.untold.swap(0, Ordering::SeqCst);
            if untold > 0 {
                witness.forgot(untold);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Tally(AtomicU64);

    impl Witness for Tally {
        fn ran(&self, _layer: Layer, _took_ms: u64, _came_to: &CameTo) {}

        fn lost(&self, _layer: Layer) {}

        fn forgot(&self, records: u64) {
            self.0.fetch_add(records, Ordering::SeqCst);
        }
    }

    #[test]
    fn what_went_before_there_was_a_witness_is_told_once() {
        let (stand, tally) = (Stand::default(), Arc::new(Tally::default()));

        stand.forgot(50);
        stand.call(tally.clone());
        stand.forgot(7);

        assert_eq!(tally.0.load(Ordering::SeqCst), 57);
    }
}
