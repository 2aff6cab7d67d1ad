//! Who asked for what, and what is recorded against what is there.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Role;

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
    /// They are quarantined.
    pub unreadable_records: Vec<String>,
    /// They are left alone.
    pub unreadable_marks: Vec<String>,
    /// Where records contradict each other.
    pub disagreements: Vec<String>,
    /// How many are neither proven to work nor proven gone after the repair. None: nothing was repaired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsettled: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BodyRef {
    pub sandbox_id: String,
    pub generation: u64,
}
