//! What happened lately, read from the history once and kept for as long as it counts.

use std::collections::{BTreeSet, VecDeque};

use pinfold_lifecycle::{Cause, Fact, SandboxId, Timestamp};
use pinfold_metrics::has_failed;
use pinfold_store::{HistoryRow, Seq, Store, StoreError};

/// Read at a time.
const ROWS: usize = 1_000;

/// The end of the history, as far as alerts go by it.
#[derive(Default)]
pub(super) struct Tail {
    /// None: nothing was read yet.
    read_to: Option<Seq>,
    counted: VecDeque<(Timestamp, Counted)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counted {
    Execution { of: SandboxId, end: End },
    Started,
    StartFailed,
    Stopped,
    StopFailed,
    Stray { of: SandboxId },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Fine,
    Failed,
    TimeLimit,
    Inactivity,
}

/// What it comes to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Lately {
    pub(super) executions: u64,
    pub(super) failed: u64,
    pub(super) timed_out: u64,
    pub(super) inactive: u64,
    pub(super) starts: u64,
    pub(super) starts_failed: u64,
    pub(super) stops: u64,
    pub(super) stops_failed: u64,
    pub(super) strays: BTreeSet<SandboxId>,
    pub(super) timeouts: BTreeSet<SandboxId>,
}

impl Tail {
    /// Reads on, and says what happened since a moment.
    pub(super) async fn since(&mut self, store: &impl Store, from: Timestamp) -> Result<Lately, StoreError> {
        let mut at = match self.read_to {
            Some(at) => at,
            None => first_after(store, from).await?,
        };
        loop {
            let rows = store.history(None, at, ROWS).await?;
            self.counted.extend(rows.iter().filter_map(|row| Some((row.record.at, counted(row)?))));
            at = rows.last().map_or(at, |row| row.seq);
            self.read_to = Some(at);
            if rows.len() < ROWS {
                break;
            }
        }
        while self.counted.front().is_some_and(|(at, _)| *at < from) {
            self.counted.pop_front();
        }
        let mut lately = Lately::default();
        self.counted.iter().filter(|(at, _)| *at >= from).for_each(|(_, counted)| lately.add(*counted));
        Ok(lately)
    }
}

/// A place in the history with little before it that is younger. Halves what is left until it is one page.
async fn first_after(store: &impl Store, from: Timestamp) -> Result<Seq, StoreError> {
    let (mut early, mut late) = (0, store.changes(Seq::LATEST).await?.seen.0);
    while late - early > ROWS as i64 {
        let middle = early + (late - early) / 2;
        let next = store.history(None, Seq(middle), 1).await?;
        match next.first() {
            Some(row) if row.record.at < from => early = middle,
            Some(_) | None => late = middle,
        }
    }
    Ok(Seq(early))
}

fn counted(row: &HistoryRow) -> Option<Counted> {
    let of = row.sandbox;
    match &row.record.fact {
        Fact::ExecutionEnded { outcome, .. } => {
            let end = match (outcome.kind, outcome.cause) {
                (_, Cause::TimeLimit) => End::TimeLimit,
                (_, Cause::Inactivity) => End::Inactivity,
                (kind, cause) if has_failed(kind, cause) => End::Failed,
                _ => End::Fine,
            };
            Some(Counted::Execution { of, end })
        }
        Fact::BecameReady { .. } => Some(Counted::Started),
        Fact::StartFailed { .. } => Some(Counted::StartFailed),
        Fact::LeaseFreed { .. } => Some(Counted::Stopped),
        Fact::StopFailed { .. } => Some(Counted::StopFailed),
        Fact::StrayFound { .. } => Some(Counted::Stray { of }),
        _ => None,
    }
}

impl Lately {
    fn add(&mut self, counted: Counted) {
        match counted {
            Counted::Execution { of, end } => {
                self.executions += 1;
                self.failed += u64::from(end != End::Fine);
                self.inactive += u64::from(end == End::Inactivity);
                if matches!(end, End::TimeLimit | End::Inactivity) {
                    self.timed_out += 1;
                    self.timeouts.insert(of);
                }
            }
            Counted::Started => self.starts += 1,
            Counted::StartFailed => {
                self.starts += 1;
                self.starts_failed += 1;
            }
            Counted::Stopped => self.stops += 1,
            Counted::StopFailed => {
                self.stops += 1;
                self.stops_failed += 1;
            }
            Counted::Stray { of } => drop(self.strays.insert(of)),
        }
    }
}
