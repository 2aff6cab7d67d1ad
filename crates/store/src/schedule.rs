//! Scheduled jobs, such as the cleanup: when each is due, which node runs it, and the outcomes of its last runs.
//!
//! ```text
//!   due --claim_run--> running --finish_run--> waiting for the next time
//!    ^                  |  ^                          |
//!    |                  |  +-- extend_claim           |
//!    +-- claim expired -+                             |
//!    +----------------------- due_at passes ----------+
//! ```

use std::collections::BTreeMap;

use async_trait::async_trait;
use pinfold_lifecycle::{NodeId, SandboxId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::StoreError;

/// The scheduled jobs of all nodes. Durability is that of [`crate::Store`].
#[async_trait]
pub trait JobSchedule: Send + Sync + 'static {
    /// Adds a job. A job that exists with the same schedule keeps its due time.
    async fn plan_job(&self, job: &str, schedule: &str, due_at: Timestamp) -> Result<(), StoreError>;

    /// All jobs, by name.
    async fn jobs(&self) -> Result<Vec<ScheduledJob>, StoreError>;

    /// Claims a job that is due and that no other node runs. Of any number of nodes that try, one gets it. The run of a
    /// node whose claim has expired is recorded as lost.
    async fn claim_run(&self, request: ClaimRun) -> Result<Option<RunClaim>, StoreError>;

    /// Extends a claim. False: another node has taken over the job.
    async fn extend_claim(&self, claim: &RunClaim, until: Timestamp) -> Result<bool, StoreError>;

    /// Writes the outcome of a run, and when the job is due next. False: another node has taken over the job, and nothing
    /// was written.
    async fn finish_run(
        &self,
        claim: &RunClaim,
        at: Timestamp,
        next_due: Timestamp,
        outcome: RunOutcome,
    ) -> Result<bool, StoreError>;

    /// Writes a run that a user requested outside the schedule.
    async fn add_run(&self, run: UnscheduledRun) -> Result<RunId, StoreError>;

    /// The last runs of one job or of all, the newest first. [`RUNS_KEPT`] runs of each job are kept.
    async fn runs(&self, job: Option<&str>, limit: usize) -> Result<Vec<JobRun>, StoreError>;
}

/// Runs that are kept of each job.
pub const RUNS_KEPT: usize = 500;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduledJob {
    pub name: String,
    /// As it was planned last.
    pub schedule: String,
    pub due_at: Timestamp,
    pub holder: Option<RunHolder>,
    /// The last scheduled run, the one in progress included.
    pub last_run: Option<JobRun>,
}

/// The node that runs a job now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunHolder {
    pub node: NodeId,
    pub until: Timestamp,
}

/// A request to run a job that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRun {
    pub job: String,
    pub node: NodeId,
    pub now: Timestamp,
    pub expires_at: Timestamp,
}

/// The right to run a job now. The run's id is its fencing token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunClaim {
    pub job: String,
    pub run: RunId,
    pub due_at: Timestamp,
}

/// Grows with every run, across all jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub i64);

/// A finished run that was not scheduled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnscheduledRun {
    pub job: String,
    pub node: NodeId,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    pub outcome: RunOutcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRun {
    pub id: RunId,
    pub job: String,
    pub node: NodeId,
    /// When it was due. None: it was requested, not scheduled.
    pub due_at: Option<Timestamp>,
    pub started_at: Timestamp,
    /// None: it is in progress.
    pub ended: Option<RunEnd>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEnd {
    pub at: Timestamp,
    pub outcome: RunOutcome,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    Done(RunReport),
    /// It could not begin, or did not reach its end.
    Failed {
        error: String,
        report: RunReport,
    },
    /// Its claim expired, and another node took over the job.
    Lost,
}

/// What a run found and did. At most [`MAX_IDS_PER_RUN`] ids of each kind are listed; the numbers count all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct RunReport {
    pub scanned: u64,
    pub found: u64,
    pub ended: u64,
    pub failed: u64,
    pub kept: u64,
    /// Deleted records that were past retention, and under disk pressure old logs and artifacts too.
    pub pruned: u64,
    /// How many were found, by reason.
    pub reasons: BTreeMap<String, u64>,
    /// How many of those were ended, by reason.
    pub ended_reasons: BTreeMap<String, u64>,
    pub found_ids: Vec<SandboxId>,
    pub ended_ids: Vec<SandboxId>,
    pub failures: Vec<ItemFailure>,
}

/// Ids of each kind that one report lists.
pub const MAX_IDS_PER_RUN: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemFailure {
    pub sandbox: SandboxId,
    pub error: String,
}

impl RunOutcome {
    /// None: the run was lost.
    #[must_use]
    pub fn report(&self) -> Option<&RunReport> {
        match self {
            Self::Done(report) | Self::Failed { report, .. } => Some(report),
            Self::Lost => None,
        }
    }

    /// A run with failed items is not a success.
    #[must_use]
    pub fn is_success(&self) -> bool {
        match self {
            Self::Done(report) => report.failed == 0,
            Self::Failed { .. } | Self::Lost => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_a_success_if_it_reached_its_end_and_no_item_failed() {
        let done =
            |ended, failed| RunOutcome::Done(RunReport { found: 2, ended, failed, ..RunReport::default() });
        let broken = RunOutcome::Failed { error: "the disk is full".into(), report: RunReport::default() };

        let verdicts = [done(2, 0), done(1, 1), broken, RunOutcome::Lost].map(|it| it.is_success());

        assert_eq!(verdicts, [true, false, false, false]);
    }
}
