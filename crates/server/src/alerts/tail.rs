//! What happened lately, read from the history once and kept for as long as it counts: as sums of seconds, so that a busy
//! server needs no more room for it than an idle one.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_lifecycle::{Cause, Fact, Outcome, SandboxId, Timestamp};
use pinfold_metrics::{has_failed, has_timed_out, is_failed_start, may_be_failed_start};
use pinfold_store::{HistoryRow, Measures, Seq, Store, StoreError, step_of};

/// Read at a time.
const ROWS: usize = 1_000;
/// How far back a sandbox that ended is looked at.
const LOOK_BACK: usize = 1_000;
const SECOND_MS: u64 = 1_000;

/// The end of the history, as far as alerts go by it.
#[derive(Default)]
pub(super) struct Tail {
    /// None: nothing was read yet.
    read_to: Option<Seq>,
    seconds: BTreeMap<Timestamp, Lately>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counted {
    Execution { of: SandboxId, end: End },
    NotStartedInTime { of: SandboxId },
    Started,
    StartFailed,
    Stopped,
    StopFailed,
    Stray { of: SandboxId },
    Lost { of: SandboxId },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Fine,
    Failed,
    /// Of all that took too long, what had fallen silent.
    Inactivity,
    TimedOut,
}

impl End {
    fn of(outcome: &Outcome) -> Self {
        match (outcome.kind, outcome.cause) {
            (_, Cause::Inactivity) => Self::Inactivity,
            (kind, _) if has_timed_out(kind) => Self::TimedOut,
            (kind, cause) if has_failed(kind, cause) => Self::Failed,
            _ => Self::Fine,
        }
    }
}

/// What it comes to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Lately {
    pub(super) executions: u64,
    pub(super) failed: u64,
    /// Sandboxes that ended before anybody had any use of them. No execution tells of these.
    pub(super) failed_starts: u64,
    pub(super) timed_out: u64,
    pub(super) inactive: u64,
    pub(super) starts: u64,
    pub(super) starts_failed: u64,
    pub(super) stops: u64,
    pub(super) stops_failed: u64,
    pub(super) strays: BTreeSet<SandboxId>,
    /// Those that did not start in time, or had executions in them that took too long.
    pub(super) timeouts: BTreeSet<SandboxId>,
    /// Those whose body was not there any more, or did not know what ran in it.
    pub(super) lost: BTreeSet<SandboxId>,
}

impl Tail {
    /// Reads on, and says what happened since a moment.
    pub(super) async fn since(
        &mut self,
        store: &(impl Store + Measures),
        from: Timestamp,
    ) -> Result<Lately, StoreError> {
        let mut at = match self.read_to {
            Some(at) => at,
            None => first_after(store, from).await?,
        };
        loop {
            let rows = store.history(None, at, ROWS).await?;
            // First what can fail: rows that were added are not read again.
            let failed_starts = failed_starts_in(store, &rows).await?;
            rows.iter().for_each(|row| self.add(row));
            failed_starts.into_iter().for_each(|at| self.second(at).failed_starts += 1);
            at = rows.last().map_or(at, |row| row.seq);
            self.read_to = Some(at);
            if rows.len() < ROWS {
                break;
            }
        }
        // A second counts as long as any of it does.
        self.seconds = self.seconds.split_off(&step_of(from, SECOND_MS));
        let mut lately = Lately::default();
        self.seconds.values().for_each(|second| lately.add_all(second));
        Ok(lately)
    }

    fn add(&mut self, row: &HistoryRow) {
        if let Some(counted) = counted(row) {
            self.second(row.record.at).add(counted);
        }
    }

    fn second(&mut self, at: Timestamp) -> &mut Lately {
        self.seconds.entry(step_of(at, SECOND_MS)).or_default()
    }
}

/// When they ended. What came before an end is asked for only where it may have been a failed start.
async fn failed_starts_in(store: &impl Measures, rows: &[HistoryRow]) -> Result<Vec<Timestamp>, StoreError> {
    let mut ended_at = Vec::new();
    for row in rows {
        let Fact::Ended { cause } = row.record.fact else { continue };
        if !may_be_failed_start(cause) {
            continue;
        }
        let own = store.records_up_to(row.sandbox, row.seq, LOOK_BACK).await?;
        if is_failed_start(cause, own.iter().map(|row| &row.record.fact)) {
            ended_at.push(row.record.at);
        }
    }
    Ok(ended_at)
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
        Fact::ExecutionEnded { outcome, .. } => Some(Counted::Execution { of, end: End::of(outcome) }),
        // Nothing has run that could have taken too long.
        Fact::EndDecided { cause: Cause::StartDeadline } => Some(Counted::NotStartedInTime { of }),
        Fact::BecameReady { .. } => Some(Counted::Started),
        Fact::StartFailed { .. } => Some(Counted::StartFailed),
        Fact::LeaseFreed { .. } => Some(Counted::Stopped),
        Fact::StopFailed { .. } => Some(Counted::StopFailed),
        Fact::StrayFound { .. } => Some(Counted::Stray { of }),
        Fact::EndDecided { cause: Cause::Lost } | Fact::TryFailed { cause: Cause::Lost, .. } => {
            Some(Counted::Lost { of })
        }
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
                if matches!(end, End::TimedOut | End::Inactivity) {
                    self.timed_out += 1;
                    self.timeouts.insert(of);
                }
            }
            Counted::NotStartedInTime { of } => drop(self.timeouts.insert(of)),
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
            Counted::Lost { of } => drop(self.lost.insert(of)),
        }
    }

    fn add_all(&mut self, other: &Self) {
        let Self {
            executions,
            failed,
            failed_starts,
            timed_out,
            inactive,
            starts,
            starts_failed,
            stops,
            stops_failed,
            strays,
            timeouts,
            lost,
        } = other;
        self.executions += executions;
        self.failed += failed;
        self.failed_starts += failed_starts;
        self.timed_out += timed_out;
        self.inactive += inactive;
        self.starts += starts;
        self.starts_failed += starts_failed;
        self.stops += stops;
        self.stops_failed += stops_failed;
        self.strays.extend(strays);
        self.timeouts.extend(timeouts);
        self.lost.extend(lost);
    }
}

#[cfg(test)]
mod tests {
    use pinfold_lifecycle::{Generation, NodeId, Record};

    use super::*;

    fn row(of: u128, at: i64, fact: Fact) -> HistoryRow {
        let record = Record { at: Timestamp(at), by: NodeId(1), fact };
        HistoryRow { seq: Seq(at), sandbox: SandboxId(of), record }
    }

    #[test]
    fn however_much_happens_it_takes_the_room_of_its_seconds() {
        let mut tail = Tail::default();

        for at in 0..10_000 {
            tail.add(&row(7, at, Fact::BecameReady { generation: Generation(1) }));
        }

        assert_eq!(tail.seconds.len(), 10);
        assert_eq!(tail.seconds.values().map(|second| second.starts).sum::<u64>(), 10_000);
    }

    #[test]
    fn whatever_took_too_long_is_a_timeout_and_silence_is_counted_apart_besides() {
        let causes = [Cause::TimeLimit, Cause::Inactivity, Cause::MaxLife, Cause::Idle, Cause::MemoryLimit];
        let mut lately = Lately::default();

        for (cause, of) in causes.into_iter().zip(1..) {
            let end = End::of(&Outcome::ended_for(cause));
            lately.add(Counted::Execution { of: SandboxId(of), end });
        }

        assert_eq!((lately.executions, lately.failed), (5, 5));
        assert_eq!((lately.timed_out, lately.inactive, lately.timeouts.len()), (4, 1, 4));
    }

    #[test]
    fn a_sandbox_that_did_not_start_in_time_is_a_timeout_and_no_execution() {
        let end = |cause| Fact::EndDecided { cause };
        let mut tail = Tail::default();
        for (of, fact) in [(1, end(Cause::StartDeadline)), (2, end(Cause::Idle)), (3, end(Cause::MaxLife))] {
            tail.add(&row(of, 100, fact));
        }

        let mut lately = Lately::default();
        tail.seconds.values().for_each(|second| lately.add_all(second));

        let expected = Lately { timeouts: BTreeSet::from([SandboxId(1)]), ..Lately::default() };
        assert_eq!(lately, expected);
    }

    #[test]
    fn a_sandbox_that_was_lost_is_counted_once_however_often_and_other_ends_are_not() {
        let lost = || Fact::EndDecided { cause: Cause::Lost };
        let tried = || Fact::TryFailed { generation: Generation(1), cause: Cause::Lost, why: String::new() };
        let other = || Fact::EndDecided { cause: Cause::HostRestarted };
        let mut tail = Tail::default();
        for (of, at, fact) in [(1, 100, tried()), (1, 5_000, lost()), (2, 900, lost()), (3, 900, other())] {
            tail.add(&row(of, at, fact));
        }

        let mut lately = Lately::default();
        tail.seconds.values().for_each(|second| lately.add_all(second));

        assert_eq!(lately.lost, BTreeSet::from([SandboxId(1), SandboxId(2)]));
    }

    #[test]
    fn the_sum_of_seconds_is_what_happened_in_them_and_names_each_sandbox_once() {
        let (ready, stray) =
            (Fact::BecameReady { generation: Generation(1) }, Fact::StrayFound { generation: Generation(2) });
        let mut tail = Tail::default();
        for (of, at, fact) in [(1, 100, &ready), (2, 900, &stray), (1, 1_100, &stray), (2, 5_000, &stray)] {
            tail.add(&row(of, at, fact.clone()));
        }

        let mut lately = Lately::default();
        tail.seconds.values().for_each(|second| lately.add_all(second));

        assert_eq!((lately.starts, lately.strays), (1, BTreeSet::from([SandboxId(1), SandboxId(2)])));
    }
}
