//! Sandboxes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Cause, Receipt, Used};

/// What is wanted. All of it may be left out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CreateSandbox {
    /// The profile whose limits it gets: `default`, or the type of an agent.
    pub agent_type: Option<String>,
    pub task_id: Option<String>,
    /// A name by which people find it.
    #[schema(min_length = 1, max_length = 128)]
    pub name: Option<String>,
    /// `host`, or an image that was imported.
    pub image: Option<String>,
    pub labels: BTreeMap<String, String>,
    /// Of everything that runs inside.
    pub env: BTreeMap<String, String>,
    /// Where commands start inside.
    pub workdir: Option<String>,
    /// Only `none` in this version.
    pub network: Option<String>,
    /// Kept by an emergency cleanup.
    pub critical: bool,
    #[serde(deserialize_with = "crate::object")]
    pub limits: LimitsWish,
}

/// What is wanted otherwise than the profile has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsWish {
    pub memory_mb: Option<u64>,
    /// Thousandths of one core.
    pub cpu_millis: Option<u32>,
    /// CPU time of one execution with all its processes.
    pub cpu_time_ms: Option<u64>,
    /// Of one execution.
    pub timeout_ms: Option<u64>,
    /// One execution that wrote nothing for so long is ended.
    pub inactivity_ms: Option<u64>,
    /// The sandbox is ended when nothing ran in it for so long.
    pub idle_ms: Option<u64>,
    pub max_life_ms: Option<u64>,
    pub network_requests: Option<u64>,
    pub disk_mb: Option<u64>,
    pub processes: Option<u64>,
    pub output_mb: Option<u64>,
    /// Executions, pieces of output and requests for files, all together. When there are more, what runs is ended and
    /// nothing is started any more.
    // Servers of earlier versions refuse what they do not know, and remember requests by how they are written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations: Option<u64>,
}

/// What holds for a sandbox. None: no limit of its own.
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
    /// The cause of its end, once that is decided.
    pub reason: Option<Cause>,
    /// For people.
    pub message: String,
    /// When it was created, when its end was decided, or when it ended.
    #[schema(format = DateTime)]
    pub since: Option<String>,
    /// When it was last found sound: probed as a whole, or asked since then.
    #[schema(format = DateTime)]
    pub verified_at: Option<String>,
    /// `present` or `gone`: what is wanted.
    pub desired: String,
}

/// One sandbox as lists show it.
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
    /// Executions that took too long or fell silent.
    pub timeouts: u64,
    /// What somebody who looks over a list should not miss.
    pub flags: Vec<String>,
}

/// Everything about one sandbox.
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
    /// Why its last launch failed, where one did.
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
    /// Executions that took too long or fell silent.
    pub timeouts: u64,
    /// Measured now, or what it came to. None: nobody can tell.
    pub usage: Option<Used>,
    pub cause: Option<Cause>,
    /// Once it is proven gone.
    pub receipt: Option<Receipt>,
    pub flags: Vec<String>,
    pub links: Links,
}

/// Which body may exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Lease {
    pub state: LeaseState,
    pub generation: u64,
    /// Bodies tried since it was created or restarted.
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

/// What happens by itself, and when.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Deadlines {
    #[schema(format = DateTime)]
    pub start_by: Option<String>,
    #[schema(format = DateTime)]
    pub idle_by: Option<String>,
    #[schema(format = DateTime)]
    pub expires_at: Option<String>,
    /// The next of all.
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

/// What all sandboxes come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Stats {
    /// Those that can work: ready, running, unhealthy or unknown.
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
    /// Destroyed on an operator's word instead of a look.
    pub attested: u64,
    /// Bodies that wait to be given out.
    pub pooled: u64,
    /// What those that are present were promised.
    pub memory_mb_promised: u64,
    pub disk_mb_promised: u64,
    pub processes_promised: u64,
    /// The age of the oldest one that is present.
    pub oldest_minutes: Option<u64>,
    pub ages: Ages,
    /// What all of them together may be promised.
    pub quotas: Quotas,
}

/// How many of those that are present are how old.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Ages {
    pub under_1_minute: u64,
    pub under_5_minutes: u64,
    pub under_10_minutes: u64,
    pub older: u64,
}

/// None: not limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Quotas {
    pub sandboxes: Option<u64>,
    pub memory_mb: Option<u64>,
    pub disk_mb: Option<u64>,
    pub processes: Option<u64>,
}

/// A stop that is not proven yet. It goes on by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StopPending {
    pub sandbox_id: String,
    pub status: Status,
    /// Where to look.
    pub location: String,
}
