//! Counts of recent history facts for alerts. The history is read once and kept as sums per second, so that memory
//! use does not grow with load.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_lifecycle::{Cause, Fact, Outcome, SandboxId, Timestamp};
use pinfold_metrics::{has_timed_out, is_failed_start, is_platform_failure, may_be_failed_start};
use pinfold_store::{HistoryRow, MetricStore, Seq, Store, StoreError, floor_to_step};

/// Rows read per query.
const ROWS: usize = 1_000;
/// How many earlier records of an ended sandbox are read.
const LOOK_BACK: usize = 1_000;
const SECOND_MS: u64 = 1_000;

/// The recent part of the history that alerts use.
#[derive(Default)]
pub(super) struct RecentHistory {
    /// None: nothing was read yet.
    read_to: Option<Seq>,
    seconds: BTreeMap<Timestamp, RecentCounts>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CountedFact {
    Execution { of: SandboxId, end: ExecutionEnd },
    NotStartedInTime { of: SandboxId },
    Started,
    StartFailed,
    Stopped,
    StopFailed,
    Stray { of: SandboxId },
    Lost { of: SandboxId },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExecutionEnd {
    /// Also a command that exited with an error or exceeded a limit.
    Fine,
    /// The platform failed it.
    Failed,
    /// A timeout because of missing output.
    Inactivity,
    TimedOut,
}

impl ExecutionEnd {
    fn of(outcome: &Outcome) -> Self {
        match (outcome.kind, outcome.cause) {
            (_, Cause::Inactivity) => Self::Inactivity,
            (kind, _) if has_timed_out(kind) => Self::TimedOut,
            (_, cause) if is_platform_failure(cause) => Self::Failed,
            _ => Self::Fine,
        }
    }
}

/// Counts over a period.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct RecentCounts {
    pub(super) executions: u64,
    /// Executions that the platform failed.
    pub(super) failed: u64,
    /// Sandboxes that ended before they were ready. They have no execution.
    pub(super) failed_starts: u64,
    pub(super) timed_out: u64,
    pub(super) inactive: u64,
    pub(super) starts: u64,
    pub(super) starts_failed: u64,
    pub(super) stops: u64,
    pub(super) stops_failed: u64,
    pub(super) strays: BTreeSet<SandboxId>,
    /// Sandboxes that did not start in time, or whose executions timed out.
    pub(super) timeouts: BTreeSet<SandboxId>,
    /// Sandboxes whose instance disappeared or lost track of its executions.
    pub(super) lost: BTreeSet<SandboxId>,
}

impl RecentHistory {
    /// Reads new history and returns the counts since `from`.
    pub(super) async fn since(
        &mut self,
        store: &(impl Store + MetricStore + ?Sized),
        from: Timestamp,
    ) -> Result<RecentCounts, StoreError> {
        let mut at = match self.read_to {
            Some(at) => at,
            None => first_after(store, from).await?,
        };
        loop {
            let rows = store.history(None, at, ROWS).await?;
            // Fallible reads first: counted rows are not read again.
            let failed_starts = failed_starts_in(store, &rows).await?;
            rows.iter().for_each(|row| self.add(row));
            failed_starts.into_iter().for_each(|at| self.second(at).failed_starts += 1);
            at = rows.last().map_or(at, |row| row.seq);
            self.read_to = Some(at);
            if rows.len() < ROWS {
                break;
            }
        }
        // A second counts as long as part of it is in the window.
        self.seconds = self.seconds.split_off(&floor_to_step(from, SECOND_MS));
        let mut counts = RecentCounts::default();
        self.seconds.values().for_each(|second| counts.add_all(second));
        Ok(counts)
    }

    fn add(&mut self, row: &HistoryRow) {
        if let Some(fact) = counted_fact(row) {
            self.second(row.record.at).add(fact);
        }
    }

    fn second(&mut self, at: Timestamp) -> &mut RecentCounts {
        self.seconds.entry(floor_to_step(at, SECOND_MS)).or_default()
    }
}

/// The end times of failed starts. Earlier records are read only where the cause allows a failed start.
async fn failed_starts_in(
    store: &(impl MetricStore + ?Sized),
    rows: &[HistoryRow],
) -> Result<Vec<Timestamp>, StoreError> {
    let mut ended_at = Vec::new();
    for row in rows {
        let Fact::Ended { cause } = row.record.fact else { continue };
        if !may_be_failed_start(cause) {
            continue;
        }
        let own = store.history_up_to(row.sandbox, row.seq, LOOK_BACK).await?;
        if is_failed_start(cause, own.iter().map(|row| &row.record.fact)) {
            ended_at.push(row.record.at);
        }
    }
    Ok(ended_at)
}

/// A history position shortly before `from`, by binary search down to one page.
async fn first_after(store: &(impl Store + ?Sized), from: Timestamp) -> Result<Seq, StoreError> {
    let (mut early, mut late) = (0, store.changes(Seq::LATEST).await?.up_to.0);
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

fn counted_fact(row: &HistoryRow) -> Option<CountedFact> {
    let of = row.sandbox;
    match &row.record.fact {
        Fact::ExecutionEnded { outcome, .. } => {
            Some(CountedFact::Execution { of, end: ExecutionEnd::of(outcome) })
        }
        // No execution ran, so this is not an execution timeout.
        Fact::EndDecided { cause: Cause::StartDeadline } => Some(CountedFact::NotStartedInTime { of }),
        Fact::BecameReady { .. } => Some(CountedFact::Started),
        Fact::StartFailed { .. } => Some(CountedFact::StartFailed),
        Fact::LeaseFreed { .. } => Some(CountedFact::Stopped),
        Fact::StopFailed { .. } => Some(CountedFact::StopFailed),
        Fact::StrayFound { .. } => Some(CountedFact::Stray { of }),
        Fact::EndDecided { cause: Cause::Lost | Cause::KeeperKilled }
        | Fact::AttemptFailed { cause: Cause::Lost | Cause::KeeperKilled, .. } => {
            Some(CountedFact::Lost { of })
        }
        _ => None,
    }
}

impl RecentCounts {
    fn add(&mut self, fact: CountedFact) {
        match fact {
            CountedFact::Execution { of, end } => {
                self.executions += 1;
                self.failed += u64::from(end == ExecutionEnd::Failed);
                self.inactive += u64::from(end == ExecutionEnd::Inactivity);
                if matches!(end, ExecutionEnd::TimedOut | ExecutionEnd::Inactivity) {
                    self.timed_out += 1;
                    self.timeouts.insert(of);
                }
            }
            CountedFact::NotStartedInTime { of } => drop(self.timeouts.insert(of)),
            CountedFact::Started => self.starts += 1,
            CountedFact::StartFailed => {
                self.starts += 1;
                self.starts_failed += 1;
            }
            CountedFact::Stopped => self.stops += 1,
            CountedFact::StopFailed => {
                self.stops += 1;
                self.stops_failed += 1;
            }
            CountedFact::Stray { of } => drop(self.strays.insert(of)),
            CountedFact::Lost { of } => drop(self.lost.insert(of)),
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
    fn memory_grows_with_seconds_not_with_facts() {
        let mut history = RecentHistory::default();

        for at in 0..10_000 {
            history.add(&row(7, at, Fact::BecameReady { generation: Generation(1) }));
        }

        assert_eq!(history.seconds.len(), 10);
        assert_eq!(history.seconds.values().map(|second| second.starts).sum::<u64>(), 10_000);
    }

    #[test]
    fn every_time_limit_is_a_timeout_and_inactivity_is_also_counted_alone() {
        let causes = [Cause::TimeLimit, Cause::Inactivity, Cause::MaxLife, Cause::Idle, Cause::Lost];
        let mut counts = RecentCounts::default();

        for (cause, of) in causes.into_iter().zip(1..) {
            let end = ExecutionEnd::of(&Outcome::ended_for(cause));
            counts.add(CountedFact::Execution { of: SandboxId(of), end });
        }

        assert_eq!((counts.executions, counts.failed), (5, 1));
        assert_eq!((counts.timed_out, counts.inactive, counts.timeouts.len()), (4, 1, 4));
    }

    #[test]
    fn exits_limits_and_cancellations_are_no_failures_of_the_platform() {
        let causes = [Cause::ExitNonzero, Cause::MemoryLimit, Cause::OutputLimit, Cause::Cancelled];
        let outcomes = causes.map(Outcome::ended_for).into_iter().chain([Outcome::exited(3)]);
        let mut counts = RecentCounts::default();

        for outcome in outcomes {
            counts.add(CountedFact::Execution { of: SandboxId(1), end: ExecutionEnd::of(&outcome) });
        }

        assert_eq!((counts.executions, counts.failed, counts.timed_out), (5, 0, 0));
    }

    #[test]
    fn a_missed_start_deadline_is_a_timeout_without_an_execution() {
        let end = |cause| Fact::EndDecided { cause };
        let mut history = RecentHistory::default();
        for (of, fact) in [(1, end(Cause::StartDeadline)), (2, end(Cause::Idle)), (3, end(Cause::MaxLife))] {
            history.add(&row(of, 100, fact));
        }

        let mut counts = RecentCounts::default();
        history.seconds.values().for_each(|second| counts.add_all(second));

        let expected = RecentCounts { timeouts: BTreeSet::from([SandboxId(1)]), ..RecentCounts::default() };
        assert_eq!(counts, expected);
    }

    #[test]
    fn a_lost_sandbox_is_counted_once_and_other_causes_are_not() {
        let lost = || Fact::EndDecided { cause: Cause::Lost };
        let tried =
            || Fact::AttemptFailed { generation: Generation(1), cause: Cause::Lost, why: String::new() };
        let other = || Fact::EndDecided { cause: Cause::HostRestarted };
        let mut history = RecentHistory::default();
        for (of, at, fact) in [(1, 100, tried()), (1, 5_000, lost()), (2, 900, lost()), (3, 900, other())] {
            history.add(&row(of, at, fact));
        }

        let mut counts = RecentCounts::default();
        history.seconds.values().for_each(|second| counts.add_all(second));

        assert_eq!(counts.lost, BTreeSet::from([SandboxId(1), SandboxId(2)]));
    }

    #[test]
    fn sums_over_seconds_count_each_stray_sandbox_once() {
        let (ready, stray) =
            (Fact::BecameReady { generation: Generation(1) }, Fact::StrayFound { generation: Generation(2) });
        let mut history = RecentHistory::default();
        for (of, at, fact) in [(1, 100, &ready), (2, 900, &stray), (1, 1_100, &stray), (2, 5_000, &stray)] {
            history.add(&row(of, at, fact.clone()));
        }

        let mut counts = RecentCounts::default();
        history.seconds.values().for_each(|second| counts.add_all(second));

        assert_eq!((counts.starts, counts.strays), (1, BTreeSet::from([SandboxId(1), SandboxId(2)])));
    }
}
