//! Receipts: the proof that an instance is gone.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Cause;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Receipt {
    pub sandbox_id: String,
    pub generation: u64,
    pub cause: Cause,
    #[schema(format = DateTime)]
    pub verified_at: String,
    pub checks: Vec<Check>,
    pub freed_bytes: u64,
    /// Null: not measured before the instance ended.
    pub usage: Option<ResourceUsage>,
    /// Set where an operator's attestation replaces an observation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attested: Option<Attestation>,
}

/// The check of one kind of resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Check {
    /// `processes`, `cgroups`, `mounts`, and other kinds that the provider owns.
    pub kind: String,
    pub result: Finding,
    pub means: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    Absent,
    Present,
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Attestation {
    pub by: String,
    pub reason: String,
    #[schema(format = DateTime)]
    pub at: String,
}

/// Total resource usage. Null: not measured, which is not 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct ResourceUsage {
    pub cpu_ms: Option<u64>,
    pub memory_peak_bytes: Option<u64>,
    pub io_read_bytes: Option<u64>,
    pub io_written_bytes: Option<u64>,
}
