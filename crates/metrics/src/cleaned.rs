//! What cleanup came to, as it is counted: run by run, but for what is told elsewhere. Bodies that no lease spoke of are
//! counted from the history (`fold.rs`), whoever found them, and old records when they go.

use crate::catalogue::{CLEANUP_ITEMS, CLEANUP_LAST, CLEANUP_RUNS};
use crate::sums::MAX;
use crate::{Latency, Sums};

/// What layers are called.
pub(crate) const LAYERS: [&str; 5] = ["scheduled", "by_age", "pressure", "reconcile", "emergency"];

pub(crate) const SCANNED: &str = "scanned";
pub(crate) const ORPHANED_FOUND: &str = "orphaned_found";
pub(crate) const ORPHANED_ENDED: &str = "orphaned_ended";
pub(crate) const STUCK_ENDED: &str = "stuck_ended";
pub(crate) const EVICTED: &str = "evicted";
pub(crate) const OLD_DELETED: &str = "old_deleted";
pub(crate) const NOT_ENDED: &str = "failed";
/// What is counted of it.
pub(crate) const ITEMS: [&str; 7] =
    [SCANNED, ORPHANED_FOUND, ORPHANED_ENDED, STUCK_ENDED, EVICTED, OLD_DELETED, NOT_ENDED];

/// One run. The layer is one of `scheduled`, `by_age`, `pressure`, `reconcile` and `emergency`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cleaned {
    pub layer: &'static str,
    pub succeeded: bool,
    /// When it ended, in seconds since the epoch.
    pub at_s: u64,
    pub took_ms: u64,
    pub scanned: u64,
    /// Sandboxes that did not become ready in their time. Bodies without a lease are no part of it.
    pub orphaned_found: u64,
    pub orphaned_ended: u64,
    pub stuck_ended: u64,
    /// Nothing was wrong with them, and they had to go.
    pub evicted: u64,
    pub failed: u64,
}

pub(crate) const SUCCEEDED: &str = "succeeded";
pub(crate) const FAILED: &str = "failed";

impl Sums {
    pub fn cleaned(&mut self, run: &Cleaned) {
        let outcome = if run.succeeded { SUCCEEDED } else { FAILED };
        self.count(CLEANUP_RUNS, &[run.layer, outcome]);
        self.took(Latency::Cleanup, &[run.layer], run.took_ms);
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

    /// A run of which nobody knows when it ended and what it came to.
    pub(crate) fn lost_cleanup(&mut self, layer: &str) {
        self.count(CLEANUP_RUNS, &[layer, FAILED]);
    }

    /// So many records that were past retention are gone.
    pub(crate) fn forgot(&mut self, records: u64) {
        self.add(CLEANUP_ITEMS, &[OLD_DELETED], records);
    }
}

/// Of several runs the last one counts.
pub(crate) fn last_run() -> String {
    format!("{MAX}{CLEANUP_LAST}")
}
