//! Looking at sandboxes: one, many, their sums, and until something is the case.

use std::time::Duration;

use pinfold_api::{self as api, Sandbox, SandboxSummary, Stats};
use pinfold_engine::{Stop, Waited};
use pinfold_lifecycle::profile::{DEFAULT_NAME, Profiles};
use pinfold_lifecycle::{AdmissionLimits, Cause, Fact, Lease, Life, SandboxId, State, Timestamp, status};
use pinfold_store::{Filter, HistoryRow, Row, Seq, Store, Stored};
use tokio::time::Instant;

use super::words::moment;
use super::{Failure, Service, body_of, view, words};

/// Which sandboxes are meant.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// A state, or `all`. None: what has not ended.
    pub status: Option<String>,
    pub agent_type: Option<String>,
    pub labels: Vec<(String, String)>,
    pub task_id: Option<String>,
}

#[derive(Debug, Clone)]
pub struct Page {
    pub sandboxes: Vec<SandboxSummary>,
    /// Where the next page begins. None: there is none.
    pub next: Option<SandboxId>,
}

/// Read at a time.
const ROWS: usize = 500;
/// How long a body is asked what it uses before the answer goes without it.
const ASK_USAGE: Duration = Duration::from_secs(1);
/// How often a state is looked at that comes with time alone.
const LOOK_EVERY: Duration = Duration::from_millis(500);

struct Filters<'a> {
    rows: Filter,
    state: Option<State>,
    agent_type: Option<&'a str>,
}

impl<'a> Filters<'a> {
    fn of(wanted: &Wanted, profiles: &'a Profiles) -> Result<Self, Failure> {
        let agent_type = wanted.agent_type.as_deref().map(|asked| profiles.named(asked)).transpose()?;
        let (rows, state) = match wanted.status.as_deref() {
            None => (Filter::Present, None),
            Some("all") => (Filter::All, None),
            Some(given) => {
                let state = parse_state("status", given)?;
                let is_final = matches!(state, State::Completed | State::Failed | State::Terminated);
                (if is_final { Filter::Settled } else { Filter::Present }, Some(state))
            }
        };
        Ok(Self { rows, state, agent_type: agent_type.map(|(name, _)| name) })
    }

    fn include(&self, row: &Row, wanted: &Wanted, now: Timestamp) -> bool {
        let Row::Readable(stored) = row else {
            let asks_for_more =
                self.agent_type.is_some() || !wanted.labels.is_empty() || wanted.task_id.is_some();
            return !asks_for_more && self.state.is_none_or(|state| state == State::Unknown);
        };
        let Stored { sandbox, spec, policy, .. } = &**stored;
        let agent_type = spec.agent_type.as_deref().unwrap_or(DEFAULT_NAME);
        self.agent_type.is_none_or(|asked| asked == agent_type)
            && wanted.labels.iter().all(|(name, value)| spec.labels.get(name) == Some(value))
            && wanted.task_id.as_ref().is_none_or(|asked| spec.task_id.as_ref() == Some(asked))
            && self.state.is_none_or(|asked| status(sandbox, now, policy).state == asked)
    }
}

fn parse_state(field: &str, given: &str) -> Result<State, Failure> {
    serde_json::from_value(given.into()).map_err(|_| {
        let known = "provisioning, ready, running, unhealthy, unknown, terminating, quarantined, completed, \
                     failed, terminated";
        Failure::bad_input(field, format!("there is no `{given}`; there are {known}"))
    })
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitFor {
    State(State),
    /// Proven gone, whatever it ended with.
    Gone,
}

impl WaitFor {
    pub fn parse(given: &str) -> Result<Self, Failure> {
        if given == "gone" { Ok(Self::Gone) } else { parse_state("state", given).map(Self::State) }
    }
}

impl Service {
    pub async fn list(
        &self,
        wanted: &Wanted,
        after: Option<SandboxId>,
        limit: usize,
    ) -> Result<Page, Failure> {
        let filters = Filters::of(wanted, &self.rules.profiles)?;
        let now = self.now();
        let mut page = Page { sandboxes: Vec::new(), next: None };
        let mut after = after;
        // One more tells whether there is a next page. Where filters leave too few of them, many are read.
        let mut count = limit.saturating_add(1).min(ROWS);
        loop {
            let rows = self.host.store.list(filters.rows, after, count).await?;
            for row in &rows {
                if page.sandboxes.len() == limit {
                    page.next = after;
                    return Ok(page);
                }
                after = Some(row.id());
                if filters.include(row, wanted, now) {
                    page.sandboxes.push(view::summary(row, now, self.rules.flags));
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
            let rows = self.host.store.list(Filter::Present, after, ROWS).await?;
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

    /// Everything about one sandbox, measured now where it lives.
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
            ready_at: ready_at(&history).map(moment),
            start_failure: start_failure(&history),
            ..view::sandbox(&row, usage, self.now(), self.rules.flags)
        })
    }

    /// None: it cannot be asked now.
    pub(super) async fn used_so_far(&self, stored: &Stored) -> Option<api::Used> {
        let used = tokio::time::timeout(ASK_USAGE, self.host.provider.used(body_of(stored)));
        used.await.ok()?.map(words::used)
    }

    /// Waits so long until it is as asked. None: it is not yet.
    pub async fn wait(&self, id: SandboxId, what: WaitFor, wait_ms: u64) -> Result<Option<Sandbox>, Failure> {
        let until = self.now().after_ms(wait_ms);
        let met = match what {
            WaitFor::Gone => matches!(self.host.engine.wait_gone(id, wait_ms).await?, Stop::Gone { .. }),
            WaitFor::State(State::Ready) => match self.host.engine.wait_ready(id, until).await? {
                // What is ready may be at work already.
                Waited::Met(Ok(())) => true,
                Waited::Met(Err(cause)) => return Err(Failure::gone(cause)),
                Waited::DeadlinePassed => false,
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
            if let Some(cause) = ended_for_good(&stored) {
                return Err(Failure::gone(cause));
            }
            if Instant::now() >= end {
                return Ok(false);
            }
            tokio::select! {
                () = changes.changed() => {}
                () = tokio::time::sleep_until(end.min(Instant::now() + LOOK_EVERY)) => {}
            }
        }
    }
}

/// Why it is being ended, or has ended.
pub(super) fn ending_for(stored: &Stored) -> Option<Cause> {
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

fn ended_for_good(stored: &Stored) -> Option<Cause> {
    match &stored.sandbox.life {
        Life::Ended { cause, .. } if stored.sandbox.is_settled() => Some(*cause),
        Life::Ended { .. } | Life::Ending { .. } | Life::Wanted => None,
    }
}

fn count(stats: &mut Stats, state: State) {
    match words::state(state) {
        api::State::Provisioning => stats.provisioning += 1,
        api::State::Ready => stats.ready += 1,
        api::State::Running => stats.running += 1,
        api::State::Unhealthy => stats.unhealthy += 1,
        api::State::Unknown => stats.unknown += 1,
        api::State::Terminating => stats.terminating += 1,
        api::State::Quarantined => stats.quarantined += 1,
        // Not among what is present.
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
    fn each_age_is_counted_once_and_the_oldest_is_told() {
        let mut stats = Stats::default();

        for minutes in [0, 1, 4, 5, 9, 10, 600] {
            count_age(&mut stats, minutes);
        }

        let api::Ages { under_1_minute, under_5_minutes, under_10_minutes, older } = stats.ages;
        assert_eq!((under_1_minute, under_5_minutes, under_10_minutes, older), (1, 2, 2, 2));
        assert_eq!(stats.oldest_minutes, Some(600));
    }
}
