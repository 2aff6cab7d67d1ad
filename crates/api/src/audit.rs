//! Who asked for what, and what is recorded against what is there.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{ProbeState, Role, State, Stats};

/// One request that may have changed something.
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
    /// How it was answered.
    pub status: u16,
    /// Whose it was, where it concerns one.
    pub sandbox_id: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditPage {
    /// The oldest first.
    pub entries: Vec<AuditEntry>,
    /// What to give as `after` to read on.
    pub next: u64,
    /// There are more already.
    pub more: bool,
}

/// What is recorded, compared with what is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Comparison {
    /// Nothing was repaired.
    pub dry_run: bool,
    pub records: u64,
    pub bodies: u64,
    /// They are leased, to be stopped.
    pub bodies_without_record: Vec<BodyRef>,
    /// They are looked at closely.
    pub records_without_body: Vec<String>,
    /// Records whose sandbox is not there: `records_without_body`, by the name that runbooks have for it.
    #[serde(default, rename = "orphanedDOs")]
    pub orphaned_records: Vec<String>,
    /// Sandboxes that no record speaks of: `bodies_without_record`, by the name that runbooks have for it.
    #[serde(default, rename = "orphanedActual")]
    pub orphaned_bodies: Vec<BodyRef>,
    /// They are quarantined.
    pub unreadable_records: Vec<String>,
    /// They are left alone.
    pub unreadable_marks: Vec<String>,
    /// Where records contradict each other.
    pub disagreements: Vec<String>,
    /// Whose status is not what was seen when they were tried just now. Each is probed again, and that decides.
    #[serde(default)]
    pub status_disagreements: Vec<StatusDisagreement>,
    /// How many are neither proven to work nor proven gone after the repair. None: nothing was repaired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsettled: Option<u64>,
    /// What all sandboxes come to after the repair. None: nothing was repaired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stats: Option<Stats>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StatusDisagreement {
    pub sandbox_id: String,
    /// As it is recorded.
    pub status: State,
    pub probe: ProbeState,
    /// What failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BodyRef {
    pub sandbox_id: String,
    pub generation: u64,
}
