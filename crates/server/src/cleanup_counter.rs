//! Counts what cleanup does, for the figures and for traces.

use std::sync::Arc;

use pinfold_engine::{Clock, Layer, Witness};
use pinfold_metrics::{Cleaned, Meter};
use pinfold_store::CameTo;

use crate::telemetry::Spans;

pub(crate) struct CleanupCounter {
    pub(crate) meter: Arc<Meter>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) spans: Spans,
}

/// Reasons for which something was found that no record spoke of, or of which only a record was left.
const ORPHANED: [&str; 3] = ["never_ready", "body_without_record", "record_without_body"];

impl Witness for CleanupCounter {
    fn ran(&self, layer: Layer, took_ms: u64, came_to: &CameTo) {
        let figures = came_to.figures().cloned().unwrap_or_default();
        let orphaned_found: u64 = ORPHANED.iter().filter_map(|reason| figures.reasons.get(*reason)).sum();
        // Of those that were found, so many were ended; which kind they were of is told by the reasons alone.
        let orphaned_ended = orphaned_found.min(figures.ended);
        let succeeded = matches!(came_to, CameTo::Done(_));
        let numbers = [
            ("pinfold.cleanup.scanned", figures.scanned),
            ("pinfold.cleanup.ended", figures.ended),
            ("pinfold.cleanup.failed", figures.failed),
        ];
        self.spans.cleaned(layer.word(), took_ms, succeeded, numbers);
        self.meter.cleaned(&Cleaned {
            layer: layer.word(),
            succeeded,
            at_s: u64::try_from(self.clock.now().0 / 1_000).unwrap_or(0),
            took_ms,
            scanned: figures.scanned,
            orphaned_found,
            orphaned_ended,
            stuck_ended: figures.ended - orphaned_ended,
            old_deleted: figures.pruned,
            failed: figures.failed,
        });
    }
}
