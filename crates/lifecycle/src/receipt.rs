//! What a stop proves: each kind of thing that was checked, by what means, and what was found.

use serde::{Deserialize, Serialize};

use crate::{Generation, Timestamp, Used};

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Receipt {
    pub generation: Generation,
    pub verified_at: Timestamp,
    pub checks: Vec<ReceiptCheck>,
    pub freed_bytes: u64,
    /// None: nobody measured it before it went.
    #[serde(default)]
    pub used: Option<Used>,
    /// Set where an operator's word stands in for a look.
    pub attested: Option<Attestation>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReceiptCheck {
    /// `processes`, `cgroups`, `mounts`, and whatever else a provider owns.
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

/// An operator's recorded word that a quarantined body is gone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Attestation {
    pub by: String,
    pub reason: String,
    pub at: Timestamp,
}

impl Receipt {
    /// Whether every check found nothing, and there was a check.
    #[must_use]
    pub fn proves_absence(&self) -> bool {
        !self.checks.is_empty() && self.checks.iter().all(|check| check.result == Finding::Absent)
    }
}
