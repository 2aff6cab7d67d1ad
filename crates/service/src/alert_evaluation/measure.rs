//! Collects the input values of alerts. Each value is read on its own, so that one failure leaves the others known.

use std::time::Duration;

use pinfold_alerts::{AlertInputs, AlertSubject, DurationP95, SandboxEventKind};
use pinfold_lifecycle::{AdmissionLimits, Lease, State, StopFailure, Timestamp, Totals, status};
use pinfold_metrics::{Counters, Latency};
use pinfold_provider::Capacity;
use pinfold_store::{MINUTE_MS, Row, SandboxFilter, StoreError, floor_to_step};
use tokio::time::timeout;

use super::AlertSnapshot;
use super::recent_history::RecentCounts;
use crate::stuck::is_stuck;
use crate::{Failure, Service};

/// Rows read per query.
const ROWS: usize = 500;
/// Time limit for measuring the host's capacity.
const CAPACITY_TIMEOUT: Duration = Duration::from_secs(2);

impl Service {
    /// Measures all values and stores the snapshot in memory.
    pub(crate) async fn measure_alerts(&self) -> AlertSnapshot {
        let now = self.now();
        let mut inputs = AlertInputs::default();
        match self.present(now).await {
            Ok(present) => present.add_to(&mut inputs),
            Err(failure) => tracing::warn!(
                why = failure.detail.message,
                "could not read sandboxes for alerts, their values are unknown"
            ),
        }
        let counts = self.counts().await.unwrap_or_else(|error| {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "could not read metrics for alerts, their values are unknown"
            );
            MetricCounts::default()
        });
        (inputs.exec_start, inputs.execution) =
            (counts.pace(Latency::ExecStart), counts.pace(Latency::Execution));
        match self.recent_counts(now).await {
            Ok(recent) => add_recent(&recent, counts.recent.refused_by_host(), &mut inputs),
            Err(failure) => {
                // Timed-out or lost sandboxes may be in the part that could not be read.
                (inputs.events, inputs.corrupted) = (None, None);
                tracing::warn!(
                    why = failure.detail.message,
                    "could not read the history for alerts, its values are unknown"
                );
            }
        }
        let totals = self.host.store.totals().await.ok();
        inputs.quota_used = totals.map(|totals| quota_used(&totals, self.host.engine.admission()));
        let capacity = timeout(CAPACITY_TIMEOUT, self.host.provider.capacity()).await;
        inputs.resources_used = capacity.ok().and_then(Result::ok).as_ref().and_then(host_used);
        if let Err(error) = self.measure_cleanups(&mut inputs).await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "could not read cleanup runs for alerts, their values are unknown"
            );
        }
        match self.wrong_tokens_per_minute(now).await {
            Ok(number) => inputs.wrong_tokens = Some(number),
            Err(error) => tracing::warn!(
                error = &error as &dyn std::error::Error,
                "could not read wrong tokens for alerts, their number is unknown"
            ),
        }
        let snapshot = AlertSnapshot { at: now, inputs };
        self.alerts.remember(snapshot.clone());
        snapshot
    }

    /// Wrong tokens of all servers in this minute or the one before, whichever has more. This minute may have just begun.
    async fn wrong_tokens_per_minute(&self, now: Timestamp) -> Result<u64, StoreError> {
        let from = floor_to_step(Timestamp(now.0.saturating_sub_unsigned(MINUTE_MS)), MINUTE_MS);
        let minutes = self.host.store.metric_points(from, Timestamp(i64::MAX)).await?;
        let numbers = minutes.into_iter().map(|minute| Counters(minute.counters).wrong_tokens());
        Ok(numbers.max().unwrap_or(0))
    }

    async fn present(&self, now: Timestamp) -> Result<Present, Failure> {
        let (mut present, mut after) = (Present::default(), None);
        loop {
            let rows = self.host.store.list(SandboxFilter::Present, after, ROWS).await?;
            rows.iter().for_each(|row| present.add(row, now));
            after = rows.last().map(Row::id);
            if rows.len() < ROWS {
                return Ok(present);
            }
        }
    }

    async fn recent_counts(&self, now: Timestamp) -> Result<RecentCounts, Failure> {
        let window_ms = i64::try_from(self.config.alerts.window.as_millis()).unwrap_or(i64::MAX);
        let from = Timestamp(now.0.saturating_sub(window_ms));
        Ok(self.alerts.recent.lock().await.since(self.host.store.as_ref(), from).await?)
    }

    async fn counts(&self) -> Result<MetricCounts, StoreError> {
        let recent = self.sums_of(self.config.alerts.window).await?;
        Ok(MetricCounts { recent, ever: Counters(self.host.store.metric_totals().await?) })
    }
}

/// Values that the recent history does not have: refused creates and latencies.
#[derive(Default)]
struct MetricCounts {
    recent: Counters,
    ever: Counters,
}

impl MetricCounts {
    fn pace(&self, what: Latency) -> DurationP95 {
        let p95 = |sums: &Counters| sums.total_histogram(what).percentiles().map(|it| it.p95);
        DurationP95 { recent: p95(&self.recent), overall: p95(&self.ever) }
    }
}

/// Values from sandboxes that are not proven gone.
#[derive(Default)]
struct Present {
    active: u64,
    disagreements: u64,
    corrupted: u64,
    stuck: Vec<String>,
}

impl Present {
    fn add(&mut self, row: &Row, now: Timestamp) {
        let Row::Readable(stored) = row else {
            self.corrupted += 1;
            return;
        };
        let state = status(&stored.sandbox, now, &stored.policy).state;
        self.active +=
            u64::from(matches!(state, State::Ready | State::Running | State::Unhealthy | State::Unknown));
        self.disagreements += u64::from(matches!(state, State::Unhealthy | State::Unknown));
        let is_corrupted = matches!(
            &stored.sandbox.lease,
            Lease::Quarantined { last: StopFailure::UnreadableRow { .. }, .. }
        );
        self.corrupted += u64::from(is_corrupted);
        if is_stuck(&stored.sandbox, now) {
            self.stuck.push(stored.sandbox.id.to_string());
        }
    }

    fn add_to(self, inputs: &mut AlertInputs) {
        inputs.active = Some(self.active);
        inputs.disagreements = Some(self.disagreements);
        inputs.corrupted = Some(self.corrupted);
        inputs.stuck = Some(self.stuck.len() as u64);
        let events =
            self.stuck.into_iter().map(|sandbox| AlertSubject { event: SandboxEventKind::Stuck, sandbox });
        inputs.events.get_or_insert_default().extend(events);
    }
}

fn add_recent(recent: &RecentCounts, turned_away: u64, inputs: &mut AlertInputs) {
    let starts = recent.starts + turned_away;
    inputs.executions = Some(recent.executions);
    let outcomes = recent.executions + recent.failed_starts;
    inputs.outcomes = Some(outcomes);
    inputs.failure_rate = Some(share(recent.failed + recent.failed_starts, outcomes));
    inputs.timeout_rate = Some(share(recent.timed_out, recent.executions));
    inputs.inactivity_rate = Some(share(recent.inactive, recent.executions));
    inputs.starts = Some(starts);
    inputs.start_failure_rate = Some(share(recent.starts_failed + turned_away, starts));
    inputs.stops = Some(recent.stops);
    inputs.stop_failure_rate = Some(share(recent.stops_failed, recent.stops));
    inputs.orphaned = Some(recent.strays.len() as u64);
    inputs.corrupted = inputs.corrupted.map(|unreadable| unreadable + recent.lost.len() as u64);
    match &mut inputs.events {
        // Unknown stays unknown: sandboxes that were not read may be stuck.
        None => {}
        Some(events) => events.extend(
            recent
                .timeouts
                .iter()
                .map(|id| AlertSubject { event: SandboxEventKind::Timeout, sandbox: id.to_string() }),
        ),
    }
}

/// A ratio; 0 where the total is 0.
#[expect(clippy::cast_precision_loss, reason = "counts, for a ratio")]
fn share(part: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { part as f64 / of as f64 }
}

/// The highest used share of the host's memory, disk and processes, as pressure cleanup computes it. None: nothing
/// could be measured.
fn host_used(capacity: &Capacity) -> Option<f64> {
    let memory = capacity.memory_mb_left.zip(capacity.memory_mb_total);
    let disk = capacity.disk_mb_left.zip(capacity.disk_mb_total);
    let processes = capacity.processes_left.zip(capacity.processes_total);
    let used = [memory, disk, processes].into_iter().flatten();
    used.map(|(left, total)| share(total.saturating_sub(left), total)).reduce(f64::max)
}

/// The highest used share of the admission limits.
fn quota_used(totals: &Totals, limits: &AdmissionLimits) -> f64 {
    let taken = &totals.taken;
    let parts = [
        (totals.leased(), limits.sandboxes),
        (taken.memory_mb, limits.memory_mb),
        (taken.disk_mb, limits.disk_mb),
        (taken.processes, limits.processes),
    ];
    parts.into_iter().filter_map(|(taken, limit)| Some(share(taken, limit?))).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_creates_count_as_failed_starts() {
        let mut inputs = AlertInputs::default();

        add_recent(&RecentCounts::default(), 5, &mut inputs);

        assert_eq!((inputs.starts, inputs.start_failure_rate), (Some(5), Some(1.0)));
    }

    #[test]
    fn the_scarcest_measured_host_resource_counts() {
        let memory =
            Capacity { memory_mb_left: Some(250), memory_mb_total: Some(1_000), ..Capacity::default() };
        let both = Capacity { disk_mb_left: Some(1), disk_mb_total: Some(10), ..memory.clone() };
        let all = Capacity { processes_left: Some(1), processes_total: Some(20), ..both.clone() };

        assert_eq!((host_used(&memory), host_used(&both)), (Some(0.75), Some(0.9)));
        assert_eq!(host_used(&all), Some(0.95));
        assert_eq!(host_used(&Capacity { memory_mb_total: None, ..memory }), None);
    }
}
