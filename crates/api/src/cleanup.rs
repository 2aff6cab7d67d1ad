//! Cleaning up: what a run has found and done, what the last ones came to, and when the next ones are.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Cause, Receipt};

/// The ways to clean up. Each finds by other means than the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CleanupLayer {
    /// What is stuck, by what is recorded of it and by whether it gives a sign of life.
    Scheduled,
    /// The same, and whatever is old has to answer, whatever is recorded of it.
    ByAge,
    /// Where something runs short: what is past its time, and then what does nothing, the oldest first.
    Pressure,
    /// Every record against every body.
    Reconcile,
    /// Everything that is not critical.
    Emergency,
}

/// What one run has found and done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CleanupResult {
    pub layer: CleanupLayer,
    /// Nothing was ended.
    pub dry_run: bool,
    pub scanned: u64,
    pub found: Vec<CleanupFound>,
    /// Those that are proven gone.
    pub ended: Vec<CleanupEnded>,
    pub failed: Vec<CleanupFailed>,
    /// Those that were not ended although they might have been, and why.
    pub kept: Vec<CleanupKept>,
    /// Records, logs and artifacts that were past their time and are removed, or in a dry run would be.
    pub pruned: u64,
    /// What the logs and artifacts among them took. What records take is not known.
    #[serde(default)]
    pub pruned_bytes: u64,
    /// Where it was looked whether something runs short: how much is taken of what.
    pub resources: Vec<ResourceLevel>,
    /// What nobody could measure. It is taken neither for plenty nor for none.
    pub not_measured: Vec<String>,
    #[schema(format = DateTime)]
    pub began_at: String,
    pub took_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CleanupFound {
    pub sandbox_id: String,
    pub reason: CleanupReason,
    /// Since when that is so, or by when it should have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub since: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CleanupReason {
    /// It has been starting for too long.
    NeverReady,
    /// It is unhealthy, and old.
    Failed,
    /// A deadline of its own has passed, and nobody has seen to it.
    Overdue,
    /// It gives no sign of life.
    Silent,
    /// Something runs short, and it does nothing.
    Idle,
    /// It is not critical, and an emergency was declared.
    Emergency,
    /// A body that no record speaks of.
    BodyWithoutRecord,
    /// A record whose body is not there, or not whole.
    RecordWithoutBody,
    /// A record that cannot be read.
    UnreadableRecord,
    /// A body that does not work although it is recorded as sound, or the other way round.
    StatusDisagrees,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CleanupEnded {
    pub sandbox_id: String,
    /// None: not even its record is there any more.
    pub cause: Option<Cause>,
    pub receipt: Option<Receipt>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CleanupFailed {
    pub sandbox_id: String,
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CleanupKept {
    pub sandbox_id: String,
    pub reason: KeptReason,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeptReason {
    Critical,
    /// Nobody could look at it.
    NotMeasured,
    /// It was well again when it was to be ended.
    Recovered,
    /// It is being ended already.
    Ending,
    /// Its body could not be proven gone, and is looked at again and again.
    Quarantined,
    /// It waits in the pool, and is nobody's sandbox.
    Pooled,
    /// Its record cannot be read.
    Unreadable,
}

/// How much of something is taken. Memory and disk in MiB.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResourceLevel {
    /// `sandboxes`, `memory`, `disk` and `processes` of what admission allows; `host_memory`, `host_disk` and
    /// `host_processes` of what the host has.
    pub resource: String,
    pub taken: u64,
    pub of: u64,
}

/// One run, as it is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CleanupRun {
    /// Later ones have larger numbers.
    pub id: u64,
    pub layer: CleanupLayer,
    /// When it should have begun. None: somebody asked for it.
    #[schema(format = DateTime)]
    pub due_at: Option<String>,
    #[schema(format = DateTime)]
    pub began_at: String,
    /// None: it is under way.
    #[schema(format = DateTime)]
    pub ended_at: Option<String>,
    pub took_ms: Option<u64>,
    pub outcome: CleanupOutcome,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The process that did it.
    pub node: String,
    pub scanned: u64,
    pub found: u64,
    pub ended: u64,
    pub failed: u64,
    pub kept: u64,
    pub pruned: u64,
    /// How many were found for which reason.
    pub reasons: std::collections::BTreeMap<String, u64>,
    /// The first thousand of those that were found.
    pub found_ids: Vec<String>,
    pub failures: Vec<CleanupFailed>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CleanupOutcome {
    Running,
    Done,
    Failed,
    /// The process that was at it is gone, and another one took its turn.
    Lost,
}

/// When one layer is due.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CleanupTurn {
    pub layer: CleanupLayer,
    /// As in a crontab, in UTC.
    pub schedule: String,
    #[schema(format = DateTime)]
    pub next_at: String,
    /// The process that is at it now.
    pub held_by: Option<String>,
    /// None: it had no turn yet.
    pub last_run: Option<CleanupRun>,
}
