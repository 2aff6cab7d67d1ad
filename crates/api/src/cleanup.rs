//! Cleanup: the result of a run, the history of runs, and the schedule.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Cause, Receipt};

/// The cleanup methods. Each finds leftovers in a different way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CleanupLayer {
    /// Stuck sandboxes, judged by their records and by signs of life.
    Scheduled,
    /// As `scheduled`, and every old sandbox must answer, whatever its record says.
    ByAge,
    /// When a resource is scarce: overdue sandboxes first, then idle ones, oldest first.
    Pressure,
    /// Compares every record with every instance.
    Reconcile,
    /// Every sandbox that is not critical.
    Emergency,
}

/// The result of one cleanup run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CleanupResult {
    pub layer: CleanupLayer,
    /// True: nothing was stopped.
    pub dry_run: bool,
    pub scanned: u64,
    pub found: Vec<CleanupFound>,
    /// Sandboxes that were stopped and are proven gone.
    pub ended: Vec<CleanupEnded>,
    pub failed: Vec<CleanupFailed>,
    /// Sandboxes that were found but not stopped, and why.
    pub kept: Vec<CleanupKept>,
    /// Expired records, logs and artifacts that were removed, or would be in a dry run.
    pub pruned: u64,
    /// The size of the removed logs and artifacts. The size of records is not known.
    #[serde(default)]
    pub pruned_bytes: u64,
    /// The resource levels, where the run checked for scarcity.
    pub resources: Vec<ResourceLevel>,
    /// Resources that could not be measured. They count neither as free nor as used up.
    pub not_measured: Vec<String>,
    #[schema(format = DateTime)]
    pub began_at: String,
    pub took_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CleanupFound {
    pub sandbox_id: String,
    pub reason: CleanupReason,
    /// Since when the reason holds, or the deadline that was missed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub since: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CleanupReason {
    /// It has been starting for too long.
    NeverReady,
    /// It is unhealthy and old.
    Failed,
    /// It is past one of its own deadlines and was not stopped.
    Overdue,
    /// It shows no sign of life.
    Silent,
    /// A resource is scarce and the sandbox is idle.
    Idle,
    /// It is not critical and an emergency cleanup was requested.
    Emergency,
    /// An instance without a record.
    InstanceWithoutRecord,
    /// A record whose instance is missing or incomplete.
    RecordWithoutInstance,
    /// A record that cannot be read.
    UnreadableRecord,
    /// The recorded status contradicts a probe.
    StatusDisagrees,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CleanupEnded {
    pub sandbox_id: String,
    /// Null: its record is gone as well.
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
    /// It could not be observed.
    NotMeasured,
    /// It had recovered before it was to be stopped.
    Recovered,
    /// It is being stopped already.
    Ending,
    /// Its instance could not be proven gone and is observed again on a schedule.
    Quarantined,
    /// It waits in the warm pool.
    Pooled,
    /// Its record cannot be read.
    Unreadable,
}

/// How much of a resource is in use. Memory and disk in MiB.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResourceLevel {
    /// `sandboxes`, `memory`, `disk` and `processes` against the admission limits; `host_memory`, `host_disk` and
    /// `host_processes` against the host.
    pub resource: String,
    pub taken: u64,
    pub of: u64,
}

/// One entry in the history of cleanup runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CleanupRun {
    /// Later runs have larger ids.
    pub id: u64,
    pub layer: CleanupLayer,
    /// When it was due. Null: requested by a user.
    #[schema(format = DateTime)]
    pub due_at: Option<String>,
    #[schema(format = DateTime)]
    pub began_at: String,
    /// Null: still running.
    #[schema(format = DateTime)]
    pub ended_at: Option<String>,
    pub took_ms: Option<u64>,
    pub outcome: CleanupOutcome,
    /// Why the run failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The node that ran it.
    pub node: String,
    pub scanned: u64,
    pub found: u64,
    pub ended: u64,
    pub failed: u64,
    pub kept: u64,
    pub pruned: u64,
    /// The number of sandboxes found, by reason.
    pub reasons: std::collections::BTreeMap<String, u64>,
    /// The first 1,000 sandboxes found.
    pub found_ids: Vec<String>,
    pub failures: Vec<CleanupFailed>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CleanupOutcome {
    Running,
    Done,
    Failed,
    /// The node that ran it died, and another node took over.
    Lost,
}

/// The schedule of one cleanup layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CleanupSchedule {
    pub layer: CleanupLayer,
    /// A crontab expression, in UTC.
    pub schedule: String,
    #[schema(format = DateTime)]
    pub next_at: String,
    /// The node that is running it now.
    pub held_by: Option<String>,
    /// Null: it has not run yet.
    pub last_run: Option<CleanupRun>,
}
