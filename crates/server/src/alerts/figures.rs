//! What is known at one moment, for alerts to go by. Each figure is found out by itself, so that one that fails leaves
//! the others known.

use pinfold_alerts::{Event, Figures, Subject};
use pinfold_lifecycle::{AdmissionLimits, Lease, State, StopFailure, Timestamp, Totals, status};
use pinfold_store::{Filter, Row, Store, Stored};

use super::tail::Lately;
use super::{Seen, host_use};
use crate::{Failure, Service};

/// Read at a time.
const ROWS: usize = 500;
/// What is due has this long to be done before it counts as stuck: a busy machine is no alarm.
const LATE_MS: u64 = 30_000;

impl Service {
    /// Looks, and remembers what was seen.
    pub(crate) async fn look_for_alerts(&self) -> Seen {
        let now = self.now();
        let mut figures = Figures::default();
        match self.present(now).await {
            Ok(present) => present.tell(&mut figures),
            Err(failure) => tracing::warn!(why = failure.detail.message, "alerts do not see the sandboxes"),
        }
        match self.lately(now).await {
            Ok(lately) => tell_lately(&lately, &mut figures),
            Err(failure) => {
                // Whoever timed out may still be among those that cannot be seen.
                figures.events = None;
                tracing::warn!(why = failure.detail.message, "alerts do not see the history");
            }
        }
        let totals = self.host().store.totals().await.ok();
        figures.quota_used = totals.map(|totals| quota_used(&totals, self.host().engine.admission()));
        figures.resources_used = host_use::used(self.data());
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
        if is_stuck(stored, now) {
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

/// Past a deadline of its own, or not proven gone by the first attempt.
fn is_stuck(stored: &Stored, now: Timestamp) -> bool {
    let sandbox = &stored.sandbox;
    let is_late = |due: Timestamp| now.ms_since(due) > LATE_MS;
    match &sandbox.lease {
        Lease::StopWaiting { .. } | Lease::Quarantined { .. } => true,
        Lease::Starting { .. } if is_late(sandbox.start_by) => true,
        Lease::Free { .. }
        | Lease::LaunchWaiting { .. }
        | Lease::Starting { .. }
        | Lease::Live(_)
        | Lease::Stopping { .. } => sandbox.next_deadline().is_some_and(is_late),
    }
}

fn tell_lately(lately: &Lately, figures: &mut Figures) {
    figures.executions = Some(lately.executions);
    figures.failure_rate = Some(share(lately.failed, lately.executions));
    figures.timeout_rate = Some(share(lately.timed_out, lately.executions));
    figures.inactivity_rate = Some(share(lately.inactive, lately.executions));
    figures.starts = Some(lately.starts);
    figures.start_failure_rate = Some(share(lately.starts_failed, lately.starts));
    figures.stops = Some(lately.stops);
    figures.stop_failure_rate = Some(share(lately.stops_failed, lately.stops));
    figures.orphaned = Some(lately.strays.len() as u64);
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
