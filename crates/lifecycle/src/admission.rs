//! Admission limits over all sandboxes. The store calls [`admit`] inside the transaction that creates a sandbox, over
//! totals read in the same transaction, so that a burst of requests cannot exceed a limit.

use serde::{Deserialize, Serialize};

use crate::TokenId;

/// The resources that one sandbox holds until it is proven gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
pub struct Demand {
    pub memory_mb: u64,
    pub disk_mb: u64,
    pub processes: u64,
}

/// Counters and allocated resources over all sandboxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
pub struct Totals {
    pub created: u64,
    pub destroyed: u64,
    /// Destroyed on an operator's attestation instead of an observation.
    pub attested: u64,
    /// Instances waiting in the pool. They are not counted as created, but the resources they hold are allocated.
    pub pooled: u64,
    pub taken: Demand,
}

impl Totals {
    /// Sandboxes not yet proven gone.
    #[must_use]
    pub fn present(&self) -> u64 {
        self.created.saturating_sub(self.destroyed)
    }

    /// Sandboxes not yet proven gone, plus pooled instances.
    #[must_use]
    pub fn leased(&self) -> u64 {
        self.present().saturating_add(self.pooled)
    }
}

/// Limits over all sandboxes. `None` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
pub struct AdmissionLimits {
    pub sandboxes: Option<u64>,
    pub memory_mb: Option<u64>,
    pub disk_mb: Option<u64>,
    pub processes: Option<u64>,
}

/// Why admission was refused, with the numbers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "resource", rename_all = "snake_case")]
pub enum AdmissionRefusal {
    #[error("Maximum sandbox limit reached: {present} of {limit}")]
    Sandboxes { present: u64, limit: u64 },
    #[error("Resource limit exceeded: memory, {taken} MiB taken and {requested} requested of {limit}")]
    Memory { taken: u64, requested: u64, limit: u64 },
    #[error("Resource limit exceeded: disk, {taken} MiB taken and {requested} requested of {limit}")]
    Disk { taken: u64, requested: u64, limit: u64 },
    #[error("Resource limit exceeded: processes, {taken} taken and {requested} requested of {limit}")]
    Processes { taken: u64, requested: u64, limit: u64 },
    #[error("quota of the token reached: {taken} of {limit} sandboxes")]
    Token { token: TokenId, taken: u64, limit: u64 },
    #[error("quota of the label `{label}={value}` reached: {taken} of {limit} sandboxes")]
    Label { label: String, value: String, taken: u64, limit: u64 },
    /// The remaining capacity is reserved for requests that were queued earlier.
    #[error("the remaining capacity is reserved for {ahead} queued requests")]
    Queue { ahead: u64 },
}

impl AdmissionRefusal {
    /// All labels that [`word`](Self::word) can return.
    pub const WORDS: [&str; 7] =
        ["sandboxes", "memory", "disk", "processes", "token_quota", "label_quota", "queue"];

    /// The label of this refusal in metrics and in API errors.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Sandboxes { .. } => "sandboxes",
            Self::Memory { .. } => "memory",
            Self::Disk { .. } => "disk",
            Self::Processes { .. } => "processes",
            Self::Token { .. } => "token_quota",
            Self::Label { .. } => "label_quota",
            Self::Queue { .. } => "queue",
        }
    }
}

/// Whether a sandbox with this demand may be created.
pub fn admit(totals: &Totals, requested: &Demand, limits: &AdmissionLimits) -> Result<(), AdmissionRefusal> {
    if let Some(limit) = limits.sandboxes
        && totals.leased() >= limit
    {
        return Err(AdmissionRefusal::Sandboxes { present: totals.leased(), limit });
    }
    let taken = &totals.taken;
    if let Some(limit) = exceeded(taken.memory_mb, requested.memory_mb, limits.memory_mb) {
        return Err(AdmissionRefusal::Memory {
            taken: taken.memory_mb,
            requested: requested.memory_mb,
            limit,
        });
    }
    if let Some(limit) = exceeded(taken.disk_mb, requested.disk_mb, limits.disk_mb) {
        return Err(AdmissionRefusal::Disk { taken: taken.disk_mb, requested: requested.disk_mb, limit });
    }
    if let Some(limit) = exceeded(taken.processes, requested.processes, limits.processes) {
        return Err(AdmissionRefusal::Processes {
            taken: taken.processes,
            requested: requested.processes,
            limit,
        });
    }
    Ok(())
}

/// Whether one more instance may be added to the pool. It leaves capacity for one user request, so the pool never
/// takes the last slot.
pub fn admit_to_pool(
    totals: &Totals,
    requested: &Demand,
    limits: &AdmissionLimits,
) -> Result<(), AdmissionRefusal> {
    let taken = Demand {
        memory_mb: totals.taken.memory_mb.saturating_add(requested.memory_mb),
        disk_mb: totals.taken.disk_mb.saturating_add(requested.disk_mb),
        processes: totals.taken.processes.saturating_add(requested.processes),
    };
    admit(&Totals { pooled: totals.pooled.saturating_add(1), taken, ..*totals }, requested, limits)
}

fn exceeded(taken: u64, requested: u64, limit: Option<u64>) -> Option<u64> {
    limit.filter(|limit| taken.saturating_add(requested) > *limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_label_is_listed() {
        // A new variant breaks this match and must be added to both lists.
        let position = |short: &AdmissionRefusal| match short {
            AdmissionRefusal::Sandboxes { .. } => 0,
            AdmissionRefusal::Memory { .. } => 1,
            AdmissionRefusal::Disk { .. } => 2,
            AdmissionRefusal::Processes { .. } => 3,
            AdmissionRefusal::Token { .. } => 4,
            AdmissionRefusal::Label { .. } => 5,
            AdmissionRefusal::Queue { .. } => 6,
        };
        let (taken, requested, limit) = (1, 1, 1);
        let all = [
            AdmissionRefusal::Sandboxes { present: 1, limit },
            AdmissionRefusal::Memory { taken, requested, limit },
            AdmissionRefusal::Disk { taken, requested, limit },
            AdmissionRefusal::Processes { taken, requested, limit },
            AdmissionRefusal::Token { token: TokenId(1), taken, limit },
            AdmissionRefusal::Label { label: "team".into(), value: "a".into(), taken, limit },
            AdmissionRefusal::Queue { ahead: 1 },
        ];

        assert_eq!(all.each_ref().map(AdmissionRefusal::word), AdmissionRefusal::WORDS);
        assert!(all.iter().enumerate().all(|(at, short)| position(short) == at));
    }
}
