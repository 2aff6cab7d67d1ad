//! Observer of cleanup runs, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use pinfold_store::RunOutcome;

use super::CleanupLayer;

/// Called synchronously: implementations must not block.
pub trait CleanupObserver: Send + Sync + 'static {
    /// A run (no dry run) has ended.
    fn ran(&self, layer: CleanupLayer, took_ms: u64, outcome: &RunOutcome);

    /// The process of a run died, so its outcome is unknown.
    fn lost(&self, layer: CleanupLayer);

    /// This many records past retention were deleted.
    fn pruned_records(&self, records: u64);
}

/// Holds the observer once it is set.
#[derive(Default)]
pub(crate) struct ObserverSlot {
    observer: OnceLock<Arc<dyn CleanupObserver>>,
    /// Deleted records not yet reported, because no observer was set.
    unreported: AtomicU64,
}

impl ObserverSlot {
    /// Set once; later calls have no effect.
    pub(super) fn set(&self, observer: Arc<dyn CleanupObserver>) {
        let _ = self.observer.set(observer);
        self.pruned_records(0);
    }

    pub(super) fn ran(&self, layer: CleanupLayer, took_ms: u64, outcome: &RunOutcome) {
        if let Some(observer) = self.observer.get() {
            observer.ran(layer, took_ms, outcome);
        }
    }

    pub(super) fn lost(&self, layer: CleanupLayer) {
        if let Some(observer) = self.observer.get() {
            observer.lost(layer);
        }
    }

    pub(crate) fn pruned_records(&self, records: u64) {
        self.unreported.fetch_add(records, Ordering::SeqCst);
        if let Some(observer) = self.observer.get() {
            let unreported = self.unreported.swap(0, Ordering::SeqCst);
            if unreported > 0 {
                observer.pruned_records(unreported);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Tally(AtomicU64);

    impl CleanupObserver for Tally {
        fn ran(&self, _layer: CleanupLayer, _took_ms: u64, _came_to: &RunOutcome) {}

        fn lost(&self, _layer: CleanupLayer) {}

        fn pruned_records(&self, records: u64) {
            self.0.fetch_add(records, Ordering::SeqCst);
        }
    }

    #[test]
    fn deletions_before_the_observer_is_set_are_reported_once() {
        let (slot, tally) = (ObserverSlot::default(), Arc::new(Tally::default()));

        slot.pruned_records(50);
        slot.set(tally.clone());
        slot.pruned_records(7);

        assert_eq!(tally.0.load(Ordering::SeqCst), 57);
    }
}
