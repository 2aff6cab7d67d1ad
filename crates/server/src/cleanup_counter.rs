//! Counts what cleanup does, for the figures and for traces. Bodies that no lease spoke of are counted from the history,
//! whoever found them, and are not counted here again.

use std::collections::BTreeMap;
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

/// Reasons by what they count as.
const ORPHANED: &[&str] = &["never_ready"];
const STUCK: &[&str] = &["failed", "overdue", "silent"];
/// Nothing was wrong with them: room was needed, or somebody wanted all of them gone.
const EVICTED: &[&str] = &["idle", "emergency"];

fn number_of(reasons: &[&str], counts: &BTreeMap<String, u64>) -> u64 {
    reasons.iter().filter_map(|reason| counts.get(*reason)).sum()
}

impl Witness for CleanupCounter {
    fn ran(&self, layer: Layer, took_ms: u64, came_to: &CameTo) {
        let figures = came_to.figures().cloned().unwrap_or_default();
        let succeeded = came_to.is_success();
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
            orphaned_found: number_of(ORPHANED, &figures.reasons),
            orphaned_ended: number_of(ORPHANED, &figures.ended_reasons),
            stuck_ended: number_of(STUCK, &figures.ended_reasons),
            evicted: number_of(EVICTED, &figures.ended_reasons),
            failed: figures.failed,
        });
    }

    fn lost(&self, layer: Layer) {
        self.meter.lost_cleanup(layer.word());
    }

    fn forgot(&self, records: u64) {
        self.meter.forgot(records);
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use pinfold_engine::Why;
    use pinfold_lifecycle::{Cause, Stuck, Timestamp};
    use pinfold_metrics::CleanupFigures;
    use pinfold_store::Figures;

    use super::*;

    struct AlwaysNoon;

    #[async_trait]
    impl Clock for AlwaysNoon {
        fn now(&self) -> Timestamp {
            Timestamp(1_000_000_000)
        }

        async fn sleep_until(&self, _at: Timestamp) {}
    }

    fn counter() -> CleanupCounter {
        CleanupCounter { meter: Arc::default(), clock: Arc::new(AlwaysNoon), spans: Spans::default() }
    }

    /// What is counted of one run that found and ended so many for which reasons.
    fn counted(found: &[(&str, u64)], ended: &[(&str, u64)]) -> CleanupFigures {
        let counts = |of: &[(&str, u64)]| of.iter().map(|(why, it)| ((*why).to_owned(), *it)).collect();
        let figures = Figures {
            found: found.iter().map(|(_, number)| number).sum(),
            ended: ended.iter().map(|(_, number)| number).sum(),
            reasons: counts(found),
            ended_reasons: counts(ended),
            pruned: 9,
            ..Figures::default()
        };
        let counter = counter();
        counter.ran(Layer::Scheduled, 5, &CameTo::Done(figures));
        counter.meter.take().cleanup().unwrap()
    }

    #[test]
    fn each_is_counted_by_what_it_was_ended_for() {
        let found = [("never_ready", 3), ("silent", 4), ("overdue", 2), ("failed", 1), ("idle", 6)];
        let ended = [("never_ready", 2), ("silent", 4), ("overdue", 1), ("failed", 1), ("idle", 5)];

        let figures = counted(&found, &ended);

        assert_eq!((figures.orphaned_found, figures.orphaned_ended), (3, 2));
        assert_eq!((figures.stuck_ended, figures.evicted), (6, 5));
    }

    #[test]
    fn an_emergency_among_the_healthy_shows_nobody_stuck() {
        let figures = counted(&[("emergency", 40)], &[("emergency", 40)]);

        assert_eq!((figures.evicted, figures.stuck_ended, figures.orphaned_ended), (40, 0, 0));
    }

    #[test]
    fn what_reconciling_has_found_is_left_to_the_history() {
        let figures = counted(&[("body_without_record", 2), ("record_without_body", 1)], &[]);

        assert_eq!((figures.orphaned_found, figures.orphaned_ended, figures.stuck_ended), (0, 0, 0));
    }

    #[test]
    fn old_records_are_counted_when_they_go_and_not_by_what_a_run_removed() {
        let counter = counter();

        counter.forgot(3);
        counter.ran(Layer::Pressure, 5, &CameTo::Done(Figures { pruned: 9, ..Figures::default() }));

        assert_eq!(counter.meter.take().cleanup().unwrap().old_deleted, 3);
    }

    #[test]
    fn a_run_that_could_not_end_all_that_it_found_did_not_succeed() {
        let counter = counter();
        let in_part = Figures { found: 3, ended: 1, failed: 2, ..Figures::default() };

        counter.ran(Layer::Scheduled, 5, &CameTo::Done(in_part));
        counter.ran(Layer::Scheduled, 5, &CameTo::Done(Figures::default()));

        let figures = counter.meter.take().cleanup().unwrap();
        assert_eq!((figures.runs, figures.success_rate, figures.failed), (2, 0.5, 2));
    }

    #[test]
    fn a_run_that_was_lost_did_not_succeed_and_took_nobody_knows_how_long() {
        let counter = counter();

        counter.ran(Layer::Reconcile, 2_000, &CameTo::Done(Figures::default()));
        counter.lost(Layer::Reconcile);

        let figures = counter.meter.take().cleanup().unwrap();
        assert_eq!((figures.runs, figures.success_rate), (2, 0.5));
        assert_eq!(figures.seconds_average, Some(2.0));
    }

    #[test]
    fn every_reason_is_of_one_kind_or_told_by_the_history() {
        // One that is added breaks this match, and belongs into a list.
        let list = |why: Why| match why {
            Why::Stuck(Stuck::NeverReady { .. }) => Some(ORPHANED),
            Why::Stuck(Stuck::Failed { .. } | Stuck::Overdue { .. } | Stuck::Silent { .. }) => Some(STUCK),
            Why::Idle | Why::Emergency => Some(EVICTED),
            Why::BodyWithoutRecord
            | Why::RecordWithoutBody
            | Why::UnreadableRecord
            | Why::StatusDisagrees => None,
        };
        let since = Timestamp(0);

        for why in [
            Why::Stuck(Stuck::NeverReady { since }),
            Why::Stuck(Stuck::Failed { since }),
            Why::Stuck(Stuck::Overdue { deadline: since, cause: Cause::MaxLife }),
            Why::Stuck(Stuck::Silent { since, at_work: true }),
            Why::Idle,
            Why::Emergency,
            Why::BodyWithoutRecord,
            Why::RecordWithoutBody,
            Why::UnreadableRecord,
            Why::StatusDisagrees,
        ] {
            let lists: Vec<_> =
                [ORPHANED, STUCK, EVICTED].into_iter().filter(|it| it.contains(&why.word())).collect();
            assert_eq!(lists, Vec::from_iter(list(why)), "{why:?}");
        }
    }
}
