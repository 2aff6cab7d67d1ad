//! Receipts: what a stop proves. Each kind of resource that was checked, by what means, with what result.

use serde::{Deserialize, Serialize};

use crate::{Generation, ResourceUsage, Timestamp};

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Receipt {
    pub generation: Generation,
    pub verified_at: Timestamp,
    pub checks: Vec<ReceiptCheck>,
    pub freed_bytes: u64,
    /// `None`: usage was not measured before the instance was gone.
    pub used: Option<ResourceUsage>,
    /// Set if an operator's attestation replaces an observation.
    pub attested: Option<Attestation>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReceiptCheck {
    /// `processes`, `cgroups`, `mounts`, or another kind of resource that the provider owns.
    pub kind: String,
    pub result: Finding,
    pub means: String,
    pub detail: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    Absent,
    Present,
    Unknown,
}

/// An operator's recorded statement that a quarantined instance is gone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Attestation {
    pub by: String,
    pub reason: String,
    pub at: Timestamp,
}

impl Receipt {
    /// Whether there is at least one check, and every check found nothing.
    #[must_use]
    pub fn proves_absence(&self) -> bool {
        !self.checks.is_empty() && self.checks.iter().all(|check| check.result == Finding::Absent)
    }
}
