//! Sandboxes: create requests, states, summaries and statistics.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Cause, Receipt, ResourceUsage};

/// A request to create a sandbox. Every field is optional.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CreateSandbox {
    /// The profile that sets the limits: `default`, or an agent type.
    pub agent_type: Option<String>,
    pub task_id: Option<String>,
    /// A name for people.
    #[schema(min_length = 1, max_length = 128)]
    pub name: Option<String>,
    /// `host`, or the name of an imported image.
    pub image: Option<String>,
    pub labels: BTreeMap<String, String>,
    /// Environment variables of all executions.
    pub env: BTreeMap<String, String>,
    /// The default working directory.
    pub workdir: Option<String>,
    /// Only `none` in this version.
    pub network: Option<String>,
    /// An emergency cleanup keeps it.
    pub critical: bool,
    /// Milliseconds from SIGTERM to SIGKILL when it is stopped; 0 kills at once. Null: as configured.
    // Skipped when absent: the idempotency key covers the serialized request, and older servers refuse unknown
    // fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
    #[serde(deserialize_with = "crate::object")]
    pub limits: LimitsRequest,
}

/// Limits that differ from the profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsRequest {
    pub memory_mb: Option<u64>,
    /// Thousandths of one core.
    pub cpu_millis: Option<u32>,
    /// CPU time of one execution and all its processes.
    pub cpu_time_ms: Option<u64>,
    /// The time limit of one execution.
    pub timeout_ms: Option<u64>,
    /// An execution without output for this long is ended.
    pub inactivity_ms: Option<u64>,
    /// A sandbox without a running execution for this long is stopped.
    pub idle_ms: Option<u64>,
    pub max_life_ms: Option<u64>,
    pub network_requests: Option<u64>,
    pub disk_mb: Option<u64>,
    pub processes: Option<u64>,
    pub output_mb: Option<u64>,
    /// Executions, output chunks and file requests together. Beyond the limit, running executions are ended and no
    /// new one starts.
    // Skipped when absent: the idempotency key covers the serialized request, and older servers refuse unknown
    // fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations: Option<u64>,
}

/// The limits of a sandbox. Null: no limit of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Limits {
    pub memory_mb: Option<u64>,
    pub cpu_millis: Option<u32>,
    pub cpu_time_ms: Option<u64>,
    pub timeout_ms: Option<u64>,
    pub inactivity_ms: Option<u64>,
    pub idle_ms: Option<u64>,
    pub max_life_ms: Option<u64>,
    pub network_requests: Option<u64>,
    pub disk_mb: Option<u64>,
    pub inodes: Option<u64>,
    pub processes: Option<u64>,
    pub open_files: Option<u64>,
    pub output_mb: Option<u64>,
    pub operations: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Provisioning,
    Ready,
    Running,
    Unhealthy,
    Unknown,
    Terminating,
    Quarantined,
    Completed,
    Failed,
    Terminated,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    pub state: State,
    /// The cause of its end, once decided.
    pub reason: Option<Cause>,
    /// For people, not for programs.
    pub message: String,
    /// When it was created, when its end was decided, or when it ended.
    #[schema(format = DateTime)]
    pub since: Option<String>,
    /// When it was last proven to work, by a probe or by a ping.
    #[schema(format = DateTime)]
    pub verified_at: Option<String>,
    /// The desired state: `present` or `gone`.
    pub desired: String,
}

/// One sandbox in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SandboxSummary {
    pub id: String,
    pub name: Option<String>,
    pub status: State,
    pub cause: Option<Cause>,
    pub message: String,
    #[schema(format = DateTime)]
    pub created_at: Option<String>,
    pub age_minutes: Option<u64>,
    #[schema(format = DateTime)]
    pub expires_at: Option<String>,
    #[schema(format = DateTime)]
    pub verified_at: Option<String>,
    pub generation: u64,
    pub agent_type: Option<String>,
    pub image: String,
    pub task_id: Option<String>,
    pub labels: BTreeMap<String, String>,
    /// Executions that have not ended.
    pub executions: u64,
    /// Executions that hit their time or inactivity limit.
    pub timeouts: u64,
    /// Flags that call for attention.
    pub flags: Vec<String>,
}

/// One sandbox in full.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Sandbox {
    pub id: String,
    pub name: Option<String>,
    pub status: Status,
    pub generation: u64,
    pub lease: Lease,
    #[schema(format = DateTime)]
    pub created_at: Option<String>,
    pub age_minutes: Option<u64>,
    /// When it first passed its probes.
    #[schema(format = DateTime)]
    pub ready_at: Option<String>,
    /// Why the last launch failed, if it did.
    pub start_failure: Option<String>,
    pub agent_type: Option<String>,
    pub image: String,
    pub task_id: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub critical: bool,
    pub workdir: Option<String>,
    pub limits: Limits,
    pub deadlines: Deadlines,
    /// Executions that have not ended.
    pub executions: u64,
    /// Executions that hit their time or inactivity limit.
    pub timeouts: u64,
    /// Current usage, or the total after its end. Null: not known.
    pub usage: Option<ResourceUsage>,
    pub cause: Option<Cause>,
    /// Set once it is proven gone.
    pub receipt: Option<Receipt>,
    pub flags: Vec<String>,
    pub links: Links,
}

/// The lease: which instance may exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Lease {
    pub state: LeaseState,
    pub generation: u64,
    /// Instances launched since it was created or restarted.
    pub launches: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LeaseState {
    Free,
    Starting,
    Live,
    Stopping,
    Quarantined,
    /// Its record cannot be read.
    Unknown,
}

/// Deadlines at which the engine acts by itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Deadlines {
    #[schema(format = DateTime)]
    pub start_by: Option<String>,
    #[schema(format = DateTime)]
    pub idle_by: Option<String>,
    #[schema(format = DateTime)]
    pub expires_at: Option<String>,
    /// The earliest deadline.
    #[schema(format = DateTime)]
    pub next: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Links {
    #[serde(rename = "self")]
    pub own: String,
    pub executions: String,
    pub logs: String,
    pub resources: String,
}

/// Totals over all sandboxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Stats {
    /// Sandboxes in ready, running, unhealthy or unknown.
    pub active: u64,
    pub provisioning: u64,
    pub terminating: u64,
    pub total_created: u64,
    pub total_destroyed: u64,
    pub ready: u64,
    pub running: u64,
    pub unhealthy: u64,
    pub unknown: u64,
    pub quarantined: u64,
    /// Not yet proven gone: always `total_created` - `total_destroyed`.
    pub present: u64,
    /// Ended by an operator's attestation instead of an observation.
    pub attested: u64,
    /// Instances in the warm pool.
    pub pooled: u64,
    /// Memory reserved by the present sandboxes.
    pub memory_mb_promised: u64,
    pub disk_mb_promised: u64,
    pub processes_promised: u64,
    /// The age of the oldest present sandbox.
    pub oldest_minutes: Option<u64>,
    pub ages: Ages,
    /// The admission limits.
    pub quotas: Quotas,
}

/// Numbers of present sandboxes by age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Ages {
    pub under_1_minute: u64,
    pub under_5_minutes: u64,
    pub under_10_minutes: u64,
    pub older: u64,
}

/// Admission limits over all sandboxes. Null: no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Quotas {
    pub sandboxes: Option<u64>,
    pub memory_mb: Option<u64>,
    pub disk_mb: Option<u64>,
    pub processes: Option<u64>,
}

/// A stop that is not proven yet. The engine continues it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StopPending {
    pub sandbox_id: String,
    /// For people.
    pub message: String,
    pub status: Status,
    /// The URL of the sandbox.
    pub location: String,
}
