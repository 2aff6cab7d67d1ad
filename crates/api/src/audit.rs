//! The audit log, and the result of the consistency check.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{ProbeState, Role, State, Stats};

/// One audit log entry: a request that could change something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    pub seq: u64,
    #[schema(format = DateTime)]
    pub at: String,
    pub token_id: String,
    pub token_name: String,
    pub role: Role,
    pub request_id: String,
    pub method: String,
    pub path: String,
    /// The HTTP status of the answer.
    pub status: u16,
    /// The sandbox that the request was about, if any.
    pub sandbox_id: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditPage {
    /// Oldest first.
    pub entries: Vec<AuditEntry>,
    /// The value of `after` for the next page.
    pub next: u64,
    /// More entries exist already.
    pub more: bool,
}

/// The result of comparing all records with all instances.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConsistencyReport {
    /// True: nothing was repaired.
    pub dry_run: bool,
    pub records: u64,
    pub instances: u64,
    /// Instances without a record. A repair leases them and stops them.
    pub instances_without_record: Vec<InstanceRef>,
    /// Records whose instance is missing or incomplete. A repair observes them again.
    pub records_without_instance: Vec<String>,
    /// The same as `records_without_instance`, under the runbook's name for it.
    #[serde(default, rename = "orphanedDOs")]
    pub orphaned_records: Vec<String>,
    /// The same as `instances_without_record`, under the runbook's name for it.
    #[serde(default, rename = "orphanedActual")]
    pub orphaned_instances: Vec<InstanceRef>,
    /// Records that cannot be read. A repair quarantines them.
    pub unreadable_records: Vec<String>,
    /// Instance marker files that cannot be read. A repair leaves them alone.
    pub unreadable_markers: Vec<String>,
    /// Contradictions between records.
    pub disagreements: Vec<String>,
    /// Sandboxes whose recorded status contradicts a probe. A repair probes each one again.
    #[serde(default)]
    pub status_disagreements: Vec<StatusDisagreement>,
    /// Sandboxes that were neither proven working nor proven gone after the repair. Null: nothing was repaired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsettled: Option<u64>,
    /// The totals after the repair. Null: nothing was repaired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stats: Option<Stats>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StatusDisagreement {
    pub sandbox_id: String,
    /// The recorded status.
    pub status: State,
    pub probe: ProbeState,
    /// What the probe found wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InstanceRef {
    pub sandbox_id: String,
    pub generation: u64,
}
