//! Records cleanup runs in metrics and traces. Instances without a lease are counted from the history, so they are
//! not counted here again.

use std::collections::BTreeMap;
use std::sync::Arc;

use pinfold_engine::{CleanupLayer, CleanupObserver, Clock};
use pinfold_metrics::{CleanupRun, ProcessMetrics};
use pinfold_store::RunOutcome;

use pinfold_notify::telemetry::Spans;

pub(crate) struct CleanupRecorder {
    pub(crate) meter: Arc<ProcessMetrics>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) spans: Spans,
}

/// Cleanup reasons that count as orphaned.
const ORPHANED: &[&str] = &["never_ready"];
const STUCK: &[&str] = &["failed", "overdue", "silent"];
/// Healthy sandboxes, stopped to free resources or in an emergency.
const EVICTED: &[&str] = &["idle", "emergency"];

fn sum_of(reasons: &[&str], counts: &BTreeMap<String, u64>) -> u64 {
    reasons.iter().filter_map(|reason| counts.get(*reason)).sum()
}

impl CleanupObserver for CleanupRecorder {
    fn ran(&self, layer: CleanupLayer, took_ms: u64, outcome: &RunOutcome) {
        let report = outcome.report().cloned().unwrap_or_default();
        let succeeded = outcome.is_success();
        let numbers = [
            ("pinfold.cleanup.scanned", report.scanned),
            ("pinfold.cleanup.ended", report.ended),
            ("pinfold.cleanup.failed", report.failed),
        ];
        self.spans.cleaned(layer.word(), took_ms, succeeded, numbers);
        self.meter.cleanup_ended(&CleanupRun {
            layer: layer.word(),
            succeeded,
            at_s: u64::try_from(self.clock.now().0 / 1_000).unwrap_or(0),
            took_ms,
            scanned: report.scanned,
            orphaned_found: sum_of(ORPHANED, &report.reasons),
            orphaned_ended: sum_of(ORPHANED, &report.ended_reasons),
            stuck_ended: sum_of(STUCK, &report.ended_reasons),
            evicted: sum_of(EVICTED, &report.ended_reasons),
            failed: report.failed,
        });
    }

    fn lost(&self, layer: CleanupLayer) {
        self.meter.cleanup_lost(layer.word());
    }

    fn pruned_records(&self, records: u64) {
        self.meter.records_deleted(records);
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use pinfold_engine::CleanupReason;
    use pinfold_lifecycle::{Cause, Stuck, Timestamp};
    use pinfold_metrics::CleanupMetrics;
    use pinfold_store::RunReport;

    use super::*;

    struct FixedClock;

    #[async_trait]
    impl Clock for FixedClock {
        fn now(&self) -> Timestamp {
            Timestamp(1_000_000_000)
        }

        async fn sleep_until(&self, _at: Timestamp) {}
    }

    fn recorder() -> CleanupRecorder {
        CleanupRecorder { meter: Arc::default(), clock: Arc::new(FixedClock), spans: Spans::default() }
    }

    /// The metrics of one run with these numbers of sandboxes found and ended, by reason.
    fn recorded(found: &[(&str, u64)], ended: &[(&str, u64)]) -> CleanupMetrics {
        let counts = |of: &[(&str, u64)]| of.iter().map(|(why, it)| ((*why).to_owned(), *it)).collect();
        let report = RunReport {
            found: found.iter().map(|(_, number)| number).sum(),
            ended: ended.iter().map(|(_, number)| number).sum(),
            reasons: counts(found),
            ended_reasons: counts(ended),
            pruned: 9,
            ..RunReport::default()
        };
        let recorder = recorder();
        recorder.ran(CleanupLayer::Scheduled, 5, &RunOutcome::Done(report));
        recorder.meter.take().cleanup().unwrap()
    }

    #[test]
    fn each_sandbox_counts_under_the_reason_it_was_ended_for() {
        let found = [("never_ready", 3), ("silent", 4), ("overdue", 2), ("failed", 1), ("idle", 6)];
        let ended = [("never_ready", 2), ("silent", 4), ("overdue", 1), ("failed", 1), ("idle", 5)];

        let metrics = recorded(&found, &ended);

        assert_eq!((metrics.orphaned_found, metrics.orphaned_ended), (3, 2));
        assert_eq!((metrics.stuck_ended, metrics.evicted), (6, 5));
    }

    #[test]
    fn an_emergency_cleanup_counts_as_evicted_not_as_stuck() {
        let metrics = recorded(&[("emergency", 40)], &[("emergency", 40)]);

        assert_eq!((metrics.evicted, metrics.stuck_ended, metrics.orphaned_ended), (40, 0, 0));
    }

    #[test]
    fn sandboxes_found_by_reconcile_are_not_counted_here() {
        let metrics = recorded(&[("instance_without_record", 2), ("record_without_instance", 1)], &[]);

        assert_eq!((metrics.orphaned_found, metrics.orphaned_ended, metrics.stuck_ended), (0, 0, 0));
    }

    #[test]
    fn expired_records_are_counted_when_they_are_removed() {
        let recorder = recorder();

        recorder.pruned_records(3);
        recorder.ran(
            CleanupLayer::Pressure,
            5,
            &RunOutcome::Done(RunReport { pruned: 9, ..RunReport::default() }),
        );

        assert_eq!(recorder.meter.take().cleanup().unwrap().old_deleted, 3);
    }

    #[test]
    fn a_run_with_failed_items_is_not_a_success() {
        let recorder = recorder();
        let in_part = RunReport { found: 3, ended: 1, failed: 2, ..RunReport::default() };

        recorder.ran(CleanupLayer::Scheduled, 5, &RunOutcome::Done(in_part));
        recorder.ran(CleanupLayer::Scheduled, 5, &RunOutcome::Done(RunReport::default()));

        let metrics = recorder.meter.take().cleanup().unwrap();
        assert_eq!((metrics.runs, metrics.success_rate, metrics.failed), (2, 0.5, 2));
    }

    #[test]
    fn a_lost_run_is_not_a_success_and_has_no_duration() {
        let recorder = recorder();

        recorder.ran(CleanupLayer::Reconcile, 2_000, &RunOutcome::Done(RunReport::default()));
        recorder.lost(CleanupLayer::Reconcile);

        let metrics = recorder.meter.take().cleanup().unwrap();
        assert_eq!((metrics.runs, metrics.success_rate), (2, 0.5));
        assert_eq!(metrics.seconds_average, Some(2.0));
    }

    #[test]
    fn every_reason_is_in_one_list_or_counted_from_the_history() {
        // A new reason breaks this match and belongs into one of the lists.
        let list = |why: CleanupReason| match why {
            CleanupReason::Stuck(Stuck::NeverReady { .. }) => Some(ORPHANED),
            CleanupReason::Stuck(Stuck::Failed { .. } | Stuck::Overdue { .. } | Stuck::Silent { .. }) => {
                Some(STUCK)
            }
            CleanupReason::Idle | CleanupReason::Emergency => Some(EVICTED),
            CleanupReason::InstanceWithoutRecord
            | CleanupReason::RecordWithoutInstance
            | CleanupReason::UnreadableRecord
            | CleanupReason::StatusDisagrees => None,
        };
        let since = Timestamp(0);

        for why in [
            CleanupReason::Stuck(Stuck::NeverReady { since }),
            CleanupReason::Stuck(Stuck::Failed { since }),
            CleanupReason::Stuck(Stuck::Overdue { deadline: since, cause: Cause::MaxLife }),
            CleanupReason::Stuck(Stuck::Silent { since, at_work: true }),
            CleanupReason::Idle,
            CleanupReason::Emergency,
            CleanupReason::InstanceWithoutRecord,
            CleanupReason::RecordWithoutInstance,
            CleanupReason::UnreadableRecord,
            CleanupReason::StatusDisagrees,
        ] {
            let lists: Vec<_> =
                [ORPHANED, STUCK, EVICTED].into_iter().filter(|it| it.contains(&why.word())).collect();
            assert_eq!(lists, Vec::from_iter(list(why)), "{why:?}");
        }
    }
}
