//! What is known at one moment, for alerts to go by. Each figure is found out by itself, so that one that fails leaves
//! the others known.

use std::time::Duration;

use pinfold_alerts::{Event, Figures, Pace, Subject};
use pinfold_lifecycle::{AdmissionLimits, Lease, State, StopFailure, Timestamp, Totals, status};
use pinfold_metrics::{Latency, Sums};
use pinfold_provider::{Capacity, Provider};
use pinfold_store::{Filter, Measures, Row, Store, StoreError};
use tokio::time::timeout;

use super::Seen;
use super::tail::Lately;
use crate::service::stuck::is_stuck;
use crate::{Failure, Service};

/// Read at a time.
const ROWS: usize = 500;
/// How long the host has to say what it has left.
const ANSWER: Duration = Duration::from_secs(2);

impl Service {
    /// Looks, and remembers what was seen.
    pub(crate) async fn look_for_alerts(&self) -> Seen {
        let now = self.now();
        let mut figures = Figures::default();
        match self.present(now).await {
            Ok(present) => present.tell(&mut figures),
            Err(failure) => tracing::warn!(why = failure.detail.message, "alerts do not see the sandboxes"),
        }
        let counts = self.counts().await.unwrap_or_else(|error| {
            tracing::warn!(error = &error as &dyn std::error::Error, "alerts do not see what was counted");
            Counts::default()
        });
        (figures.exec_start, figures.execution) =
            (counts.pace(Latency::ExecStart), counts.pace(Latency::Execution));
        match self.lately(now).await {
            Ok(lately) => tell_lately(&lately, counts.lately.refused_by_host(), &mut figures),
            Err(failure) => {
                // Whoever timed out or was lost may still be among those that cannot be seen.
                (figures.events, figures.corrupted) = (None, None);
                tracing::warn!(why = failure.detail.message, "alerts do not see the history");
            }
        }
        let totals = self.host().store.totals().await.ok();
        figures.quota_used = totals.map(|totals| quota_used(&totals, self.host().engine.admission()));
        let capacity = timeout(ANSWER, self.host().provider.capacity()).await;
        figures.resources_used = capacity.ok().and_then(Result::ok).as_ref().and_then(host_used);
        if let Err(error) = self.look_at_cleanups(&mut figures).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "alerts do not see the cleanups");
        }
        let seen = Seen { at: now, figures };
        self.desk().remember(seen.clone());
        seen
    }

    async fn present(&self, now: Timestamp) -> Result<Present, Failure> {
        let (mut present, mut after) = (Present::default(), None);
        loop {
            let rows = self.host().store.list(Filter::Present, after, ROWS).await?;
            rows.iter().for_each(|row| present.add(row, now));
            after = rows.last().map(Row::id);
            if rows.len() < ROWS {
                return Ok(present);
            }
        }
    }

    async fn lately(&self, now: Timestamp) -> Result<Lately, Failure> {
        let window_ms = i64::try_from(self.rules().alerts.window.as_millis()).unwrap_or(i64::MAX);
        let from = Timestamp(now.0.saturating_sub(window_ms));
        Ok(self.desk().tail.lock().await.since(self.host().store.as_ref(), from).await?)
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        let lately = self.sums_of(self.rules().alerts.window).await?;
        Ok(Counts { lately, ever: Sums(self.host().store.counted().await?) })
    }
}

/// What the tail of the history does not tell: who was refused because the host has no room, and how long things take.
#[derive(Default)]
struct Counts {
    lately: Sums,
    ever: Sums,
}

impl Counts {
    fn pace(&self, what: Latency) -> Pace {
        let p95 = |sums: &Sums| sums.all_times(what).percentiles().map(|it| it.p95);
        Pace { lately: p95(&self.lately), usually: p95(&self.ever) }
    }
}

/// Of sandboxes that are not proven gone.
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

    fn tell(self, figures: &mut Figures) {
        figures.active = Some(self.active);
        figures.disagreements = Some(self.disagreements);
        figures.corrupted = Some(self.corrupted);
        figures.stuck = Some(self.stuck.len() as u64);
        let events = self.stuck.into_iter().map(|sandbox| Subject { event: Event::Stuck, sandbox });
        figures.events.get_or_insert_default().extend(events);
    }
}

fn tell_lately(lately: &Lately, turned_away: u64, figures: &mut Figures) {
    let starts = lately.starts + turned_away;
    figures.executions = Some(lately.executions);
    let outcomes = lately.executions + lately.failed_starts;
    figures.outcomes = Some(outcomes);
    figures.failure_rate = Some(share(lately.failed + lately.failed_starts, outcomes));
    figures.timeout_rate = Some(share(lately.timed_out, lately.executions));
    figures.inactivity_rate = Some(share(lately.inactive, lately.executions));
    figures.starts = Some(starts);
    figures.start_failure_rate = Some(share(lately.starts_failed + turned_away, starts));
    figures.stops = Some(lately.stops);
    figures.stop_failure_rate = Some(share(lately.stops_failed, lately.stops));
    figures.orphaned = Some(lately.strays.len() as u64);
    figures.corrupted = figures.corrupted.map(|unreadable| unreadable + lately.lost.len() as u64);
    match &mut figures.events {
        // What could not be looked at may be stuck.
        None => {}
        Some(events) => events.extend(
            lately.timeouts.iter().map(|id| Subject { event: Event::Timeout, sandbox: id.to_string() }),
        ),
    }
}

/// Of nothing: none.
#[expect(clippy::cast_precision_loss, reason = "counts, for a share of them")]
fn share(part: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { part as f64 / of as f64 }
}

/// The scarcest of the host's memory, disk and processes, as cleanup under pressure goes by. None: none could be
/// measured.
fn host_used(capacity: &Capacity) -> Option<f64> {
    let memory = capacity.memory_mb_left.zip(capacity.memory_mb_total);
    let disk = capacity.disk_mb_left.zip(capacity.disk_mb_total);
    let processes = capacity.processes_left.zip(capacity.processes_total);
    let used = [memory, disk, processes].into_iter().flatten();
    used.map(|(left, total)| share(total.saturating_sub(left), total)).reduce(f64::max)
}

/// Of what is limited: the scarcest.
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
    fn a_host_that_refuses_every_create_cannot_provision() {
        let mut figures = Figures::default();

        tell_lately(&Lately::default(), 5, &mut figures);

        assert_eq!((figures.starts, figures.start_failure_rate), (Some(5), Some(1.0)));
    }

    #[test]
    fn of_the_host_the_scarcest_counts_and_what_was_not_measured_does_not() {
        let memory =
            Capacity { memory_mb_left: Some(250), memory_mb_total: Some(1_000), ..Capacity::default() };
        let both = Capacity { disk_mb_left: Some(1), disk_mb_total: Some(10), ..memory.clone() };
        let all = Capacity { processes_left: Some(1), processes_total: Some(20), ..both.clone() };

        assert_eq!((host_used(&memory), host_used(&both)), (Some(0.75), Some(0.9)));
        assert_eq!(host_used(&all), Some(0.95));
        assert_eq!(host_used(&Capacity { memory_mb_total: None, ..memory }), None);
    }
}
