//! Reading sandboxes: one, a list, totals, and waiting for a state.

use std::time::Duration;

use pinfold_api::{self as api, Sandbox, SandboxSummary, Stats};
use pinfold_engine::{StopProgress, WaitOutcome};
use pinfold_lifecycle::profile::{DEFAULT_NAME, Profiles};
use pinfold_lifecycle::{AdmissionLimits, Cause, Fact, Lease, Life, SandboxId, State, Timestamp, status};
use pinfold_store::{HistoryRow, Row, SandboxFilter, Seq, StoredSandbox};
use tokio::time::Instant;

use super::convert::rfc3339;
use super::{Failure, Service, convert, instance_of, view};

/// A filter for sandbox lists.
#[derive(Debug, Clone, Default)]
pub struct SandboxQuery {
    /// A state, or `all`. None: all that have not ended.
    pub status: Option<String>,
    pub agent_type: Option<String>,
    pub labels: Vec<(String, String)>,
    pub task_id: Option<String>,
}

#[derive(Debug, Clone)]
pub struct SandboxPage {
    pub sandboxes: Vec<SandboxSummary>,
    /// The cursor of the next page. None: this is the last one.
    pub next: Option<SandboxId>,
}

/// Rows read per query.
const ROWS: usize = 500;
/// Time limit for measuring usage; the answer goes without it afterwards.
const USAGE_TIMEOUT: Duration = Duration::from_secs(1);
/// Poll interval for states that change by time alone.
const POLL_EVERY: Duration = Duration::from_millis(500);

struct Filters<'a> {
    rows: SandboxFilter,
    state: Option<State>,
    agent_type: Option<&'a str>,
}

impl<'a> Filters<'a> {
    fn of(filter: &SandboxQuery, profiles: &'a Profiles) -> Result<Self, Failure> {
        let agent_type = filter.agent_type.as_deref().map(|asked| profiles.get(asked)).transpose()?;
        let (rows, state) = match filter.status.as_deref() {
            None => (SandboxFilter::Present, None),
            Some("all") => (SandboxFilter::All, None),
            Some(given) => {
                let state = parse_state("status", given)?;
                let is_final = matches!(state, State::Completed | State::Failed | State::Terminated);
                (if is_final { SandboxFilter::Settled } else { SandboxFilter::Present }, Some(state))
            }
        };
        Ok(Self { rows, state, agent_type: agent_type.map(|(name, _)| name) })
    }

    fn include(&self, row: &Row, filter: &SandboxQuery, now: Timestamp) -> bool {
        let Row::Readable(stored) = row else {
            let has_other_filters =
                self.agent_type.is_some() || !filter.labels.is_empty() || filter.task_id.is_some();
            return !has_other_filters && self.state.is_none_or(|state| state == State::Unknown);
        };
        let StoredSandbox { sandbox, spec, policy, .. } = &**stored;
        let agent_type = spec.agent_type.as_deref().unwrap_or(DEFAULT_NAME);
        self.agent_type.is_none_or(|asked| asked == agent_type)
            && filter.labels.iter().all(|(name, value)| spec.labels.get(name) == Some(value))
            && filter.task_id.as_ref().is_none_or(|asked| spec.task_id.as_ref() == Some(asked))
            && self.state.is_none_or(|asked| status(sandbox, now, policy).state == asked)
    }
}

fn parse_state(field: &str, given: &str) -> Result<State, Failure> {
    serde_json::from_value(given.into()).map_err(|_| {
        let known = "provisioning, ready, running, unhealthy, unknown, terminating, quarantined, completed, \
                     failed, terminated";
        Failure::bad_input(field, format!("unknown state `{given}`; one of {known}"))
    })
}

/// The state to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitFor {
    State(State),
    /// Proven gone, with any cause.
    Gone,
}

impl WaitFor {
    pub fn parse(given: &str) -> Result<Self, Failure> {
        if given == "gone" { Ok(Self::Gone) } else { parse_state("state", given).map(Self::State) }
    }
}

/// Prefixes of ids. No name begins with one of them.
const ID_PREFIXES: [&str; 3] = [SandboxId::PREFIX, "exe_", "job_"];

impl Service {
    /// The sandbox with this id, or with this name and not proven gone.
    pub async fn find_sandbox(&self, given: &str) -> Result<SandboxId, Failure> {
        let parsed = given.parse::<SandboxId>();
        if let Err(error) = &parsed
            && ID_PREFIXES.iter().any(|prefix| given.starts_with(prefix))
        {
            return Err(Failure::bad_input("id", error));
        }
        if let Ok(id) = parsed {
            return Ok(id);
        }
        let mut after = None;
        loop {
            let rows = self.host.store.list(SandboxFilter::Present, after, ROWS).await?;
            let is_it = |row: &&Row| matches!(row, Row::Readable(stored) if stored.spec.name.as_deref() == Some(given));
            if let Some(row) = rows.iter().find(is_it) {
                return Ok(row.id());
            }
            after = rows.last().map(Row::id);
            if rows.len() < ROWS {
                let message = format!("there is no sandbox with the id or name `{}`", given.escape_debug());
                return Err(Failure::new(api::ErrorCode::UnknownSandbox, message));
            }
        }
    }

    pub async fn list(
        &self,
        filter: &SandboxQuery,
        after: Option<SandboxId>,
        limit: usize,
    ) -> Result<SandboxPage, Failure> {
        let filters = Filters::of(filter, &self.config.profiles)?;
        let now = self.now();
        let mut page = SandboxPage { sandboxes: Vec::new(), next: None };
        let mut after = after;
        // One extra row shows whether a next page exists. When filters drop rows, full pages are read.
        let mut count = limit.saturating_add(1).min(ROWS);
        loop {
            let rows = self.host.store.list(filters.rows, after, count).await?;
            for row in &rows {
                if page.sandboxes.len() == limit {
                    page.next = after;
                    return Ok(page);
                }
                after = Some(row.id());
                if filters.include(row, filter, now) {
                    page.sandboxes.push(view::summary(row, now, self.config.flags));
                }
            }
            if rows.len() < count {
                return Ok(page);
            }
            count = ROWS;
        }
    }

    pub async fn stats(&self) -> Result<Stats, Failure> {
        let now = self.now();
        let totals = self.host.store.totals().await?;
        let mut stats = Stats {
            total_created: totals.created,
            total_destroyed: totals.destroyed,
            present: totals.present(),
            attested: totals.attested,
            pooled: totals.pooled,
            memory_mb_promised: totals.taken.memory_mb,
            disk_mb_promised: totals.taken.disk_mb,
            processes_promised: totals.taken.processes,
            quotas: quotas(self.host.engine.admission()),
            ..Stats::default()
        };
        let mut after = None;
        loop {
            let rows = self.host.store.list(SandboxFilter::Present, after, ROWS).await?;
            for row in &rows {
                match row {
                    Row::Readable(stored) => {
                        count(&mut stats, status(&stored.sandbox, now, &stored.policy).state);
                        count_age(&mut stats, now.ms_since(stored.sandbox.created_at) / 60_000);
                    }
                    Row::Unreadable(_) => count(&mut stats, State::Unknown),
                }
            }
            after = rows.last().map(Row::id);
            if rows.len() < ROWS {
                return Ok(stats);
            }
        }
    }

    /// One sandbox in full, with its current usage if it lives.
    pub async fn sandbox(&self, id: SandboxId) -> Result<Sandbox, Failure> {
        let row = self.row(id).await?;
        let usage = match &row {
            Row::Readable(stored) if matches!(stored.sandbox.lease, Lease::Live(_)) => {
                self.used_so_far(stored).await
            }
            Row::Readable(_) | Row::Unreadable(_) => None,
        };
        let history = self.host.store.history(Some(id), Seq::default(), usize::MAX).await?;
        Ok(Sandbox {
            ready_at: ready_at(&history).map(rfc3339),
            start_failure: start_failure(&history),
            ..view::sandbox(&row, usage, self.now(), self.config.flags)
        })
    }

    /// The usage so far. None: the instance does not answer.
    pub(super) async fn used_so_far(&self, stored: &StoredSandbox) -> Option<api::ResourceUsage> {
        let used = tokio::time::timeout(
            USAGE_TIMEOUT,
            self.host.provider.inspect().total_usage(instance_of(stored)),
        );
        used.await.ok()?.map(convert::used)
    }

    /// Waits for a state. None: not reached within the timeout.
    pub async fn wait(&self, id: SandboxId, what: WaitFor, wait_ms: u64) -> Result<Option<Sandbox>, Failure> {
        let until = self.now().after_ms(wait_ms);
        let met = match what {
            WaitFor::Gone => {
                matches!(self.host.engine.wait_gone(id, wait_ms).await?, StopProgress::Gone { .. })
            }
            WaitFor::State(State::Ready) => match self.host.engine.wait_ready(id, until).await? {
                // A ready sandbox may be running an execution already.
                WaitOutcome::Met(Ok(())) => true,
                WaitOutcome::Met(Err(cause)) => return Err(Failure::gone(cause)),
                WaitOutcome::DeadlinePassed => false,
            },
            WaitFor::State(state) => self.wait_for_state(id, state, wait_ms).await?,
        };
        if met { self.sandbox(id).await.map(Some) } else { Ok(None) }
    }

    async fn wait_for_state(&self, id: SandboxId, asked: State, wait_ms: u64) -> Result<bool, Failure> {
        let end = Instant::now() + Duration::from_millis(wait_ms);
        let mut changes = self.host.engine.listen(id);
        loop {
            changes.catch_up();
            let stored = self.stored(id).await?;
            let seen = status(&stored.sandbox, self.now(), &stored.policy).state;
            if seen == asked {
                return Ok(true);
            }
            if let Some(cause) = final_cause(&stored) {
                return Err(Failure::gone(cause));
            }
            if Instant::now() >= end {
                return Ok(false);
            }
            tokio::select! {
                () = changes.changed() => {}
                () = tokio::time::sleep_until(end.min(Instant::now() + POLL_EVERY)) => {}
            }
        }
    }
}

/// The cause of its end, once decided.
pub(super) fn end_cause(stored: &StoredSandbox) -> Option<Cause> {
    match &stored.sandbox.life {
        Life::Ended { cause, .. } | Life::Ending { cause, .. } => Some(*cause),
        Life::Wanted => None,
    }
}

fn ready_at(history: &[HistoryRow]) -> Option<Timestamp> {
    let is_it = |row: &&HistoryRow| matches!(row.record.fact, Fact::BecameReady { .. });
    history.iter().find(is_it).map(|row| row.record.at)
}

fn start_failure(history: &[HistoryRow]) -> Option<String> {
    history.iter().rev().find_map(|row| match &row.record.fact {
        Fact::StartFailed { why, .. } => Some(why.clone()),
        _ => None,
    })
}

fn final_cause(stored: &StoredSandbox) -> Option<Cause> {
    match &stored.sandbox.life {
        Life::Ended { cause, .. } if stored.sandbox.is_settled() => Some(*cause),
        Life::Ended { .. } | Life::Ending { .. } | Life::Wanted => None,
    }
}

fn count(stats: &mut Stats, state: State) {
    match convert::state(state) {
        api::State::Provisioning => stats.provisioning += 1,
        api::State::Ready => stats.ready += 1,
        api::State::Running => stats.running += 1,
        api::State::Unhealthy => stats.unhealthy += 1,
        api::State::Unknown => stats.unknown += 1,
        api::State::Terminating => stats.terminating += 1,
        api::State::Quarantined => stats.quarantined += 1,
        // Ended sandboxes are not among the present ones.
        api::State::Completed | api::State::Failed | api::State::Terminated => {}
    }
    stats.active = stats.ready + stats.running + stats.unhealthy + stats.unknown;
}

fn count_age(stats: &mut Stats, minutes: u64) {
    stats.oldest_minutes = Some(stats.oldest_minutes.unwrap_or(0).max(minutes));
    match minutes {
        0 => stats.ages.under_1_minute += 1,
        1..5 => stats.ages.under_5_minutes += 1,
        5..10 => stats.ages.under_10_minutes += 1,
        _ => stats.ages.older += 1,
    }
}

fn quotas(limits: &AdmissionLimits) -> api::Quotas {
    let AdmissionLimits { sandboxes, memory_mb, disk_mb, processes } = *limits;
    api::Quotas { sandboxes, memory_mb, disk_mb, processes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_age_is_counted_once_and_the_oldest_is_reported() {
        let mut stats = Stats::default();

        for minutes in [0, 1, 4, 5, 9, 10, 600] {
            count_age(&mut stats, minutes);
        }

        let api::Ages { under_1_minute, under_5_minutes, under_10_minutes, older } = stats.ages;
        assert_eq!((under_1_minute, under_5_minutes, under_10_minutes, older), (1, 2, 2, 2));
        assert_eq!(stats.oldest_minutes, Some(600));
    }
}
