//! Metrics of cleanup runs. Instances without a lease are counted from the history (`history.rs`), whichever run found
//! them, and old records are counted when they are deleted.

use crate::catalogue::{CLEANUP_ITEMS, CLEANUP_LAST, CLEANUP_RUNS};
use crate::counters::MAX;
use crate::{Counters, Latency};

/// The cleanup layers, as label values.
pub(crate) const LAYERS: [&str; 5] = ["scheduled", "by_age", "pressure", "reconcile", "emergency"];

pub(crate) const SCANNED: &str = "scanned";
pub(crate) const ORPHANED_FOUND: &str = "orphaned_found";
pub(crate) const ORPHANED_ENDED: &str = "orphaned_ended";
pub(crate) const STUCK_ENDED: &str = "stuck_ended";
pub(crate) const EVICTED: &str = "evicted";
pub(crate) const OLD_DELETED: &str = "old_deleted";
pub(crate) const NOT_ENDED: &str = "failed";
/// The counted items, as label values.
pub(crate) const ITEMS: [&str; 7] =
    [SCANNED, ORPHANED_FOUND, ORPHANED_ENDED, STUCK_ENDED, EVICTED, OLD_DELETED, NOT_ENDED];

/// The result of one run. The layer is one of `scheduled`, `by_age`, `pressure`, `reconcile` and `emergency`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CleanupRun {
    pub layer: &'static str,
    pub succeeded: bool,
    /// End of the run, in seconds since the epoch.
    pub at_s: u64,
    pub took_ms: u64,
    pub scanned: u64,
    /// Sandboxes that did not become ready in time. Instances without a lease are not included.
    pub orphaned_found: u64,
    pub orphaned_ended: u64,
    pub stuck_ended: u64,
    /// Healthy sandboxes that were ended under resource pressure.
    pub evicted: u64,
    pub failed: u64,
}

pub(crate) const SUCCEEDED: &str = "succeeded";
pub(crate) const FAILED: &str = "failed";

impl Counters {
    pub fn count_cleanup(&mut self, run: &CleanupRun) {
        let outcome = if run.succeeded { SUCCEEDED } else { FAILED };
        self.count(CLEANUP_RUNS, &[run.layer, outcome]);
        self.record(Latency::Cleanup, &[run.layer], run.took_ms);
        self.add(&last_run(), &[run.layer], run.at_s);
        for (what, number) in [
            (SCANNED, run.scanned),
            (ORPHANED_FOUND, run.orphaned_found),
            (ORPHANED_ENDED, run.orphaned_ended),
            (STUCK_ENDED, run.stuck_ended),
            (EVICTED, run.evicted),
            (NOT_ENDED, run.failed),
        ] {
            self.add(CLEANUP_ITEMS, &[what], number);
        }
    }

    /// Counts a run whose end and result are not known.
    pub(crate) fn count_lost_cleanup(&mut self, layer: &str) {
        self.count(CLEANUP_RUNS, &[layer, FAILED]);
    }

    /// Counts deleted records that were past retention.
    pub(crate) fn count_deleted_records(&mut self, records: u64) {
        self.add(CLEANUP_ITEMS, &[OLD_DELETED], records);
    }
}

/// Of several runs the latest time is kept.
pub(crate) fn last_run() -> String {
    format!("{MAX}{CLEANUP_LAST}")
}
