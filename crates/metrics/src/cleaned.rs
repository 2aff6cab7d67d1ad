//! What one run of cleanup came to, as it is counted.

use crate::catalogue::{CLEANUP_ITEMS, CLEANUP_LAST, CLEANUP_RUNS};
use crate::sums::MAX;
use crate::{Latency, Sums};

/// What layers are called.
pub(crate) const LAYERS: [&str; 5] = ["scheduled", "by_age", "pressure", "reconcile", "emergency"];
/// What is counted of a run.
pub(crate) const ITEMS: [&str; 6] =
    ["scanned", "orphaned_found", "orphaned_ended", "stuck_ended", "old_deleted", "failed"];

/// The layer is one of `scheduled`, `by_age`, `pressure`, `reconcile` and `emergency`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cleaned {
    pub layer: &'static str,
    pub succeeded: bool,
    /// When it ended, in seconds since the epoch.
    pub at_s: u64,
    pub took_ms: u64,
    pub scanned: u64,
    pub orphaned_found: u64,
    pub orphaned_ended: u64,
    pub stuck_ended: u64,
    pub old_deleted: u64,
    pub failed: u64,
}

pub(crate) const SUCCEEDED: &str = "succeeded";
pub(crate) const FAILED: &str = "failed";

impl Sums {
    pub fn cleaned(&mut self, run: &Cleaned) {
        let outcome = if run.succeeded { SUCCEEDED } else { FAILED };
        self.count(CLEANUP_RUNS, &[run.layer, outcome]);
        self.took(Latency::Cleanup, &[], run.took_ms);
        self.add(&last_run(), &[run.layer], run.at_s);
        let numbers = [
            run.scanned,
            run.orphaned_found,
            run.orphaned_ended,
            run.stuck_ended,
            run.old_deleted,
            run.failed,
        ];
        for (what, number) in ITEMS.into_iter().zip(numbers) {
            self.add(CLEANUP_ITEMS, &[what], number);
        }
    }
}

/// Of several runs the last one counts.
pub(crate) fn last_run() -> String {
    format!("{MAX}{CLEANUP_LAST}")
}
