//! Whether there is room for one more. Decided inside the transaction that creates, over totals that the same
//! transaction sees, so that no burst of requests gets past a limit.

use serde::{Deserialize, Serialize};

/// What one sandbox takes while it is not proven gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
pub struct Demand {
    pub memory_mb: u64,
    pub disk_mb: u64,
    pub processes: u64,
}

/// What all sandboxes together have been and take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
pub struct Totals {
    pub created: u64,
    pub destroyed: u64,
    /// Destroyed on an operator's word instead of a look.
    pub attested: u64,
    pub taken: Demand,
}

impl Totals {
    /// Those not yet proven gone.
    #[must_use]
    pub fn present(&self) -> u64 {
        self.created.saturating_sub(self.destroyed)
    }
}

/// None: no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
pub struct AdmissionLimits {
    pub sandboxes: Option<u64>,
    pub memory_mb: Option<u64>,
    pub disk_mb: Option<u64>,
    pub processes: Option<u64>,
}

/// What there is not enough of, with the figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "resource", rename_all = "snake_case")]
pub enum Scarcity {
    #[error("maximum sandbox limit reached: {present} of {limit}")]
    Sandboxes { present: u64, limit: u64 },
    #[error("resource limit exceeded: memory, {taken} MiB taken and {asked} asked of {limit}")]
    Memory { taken: u64, asked: u64, limit: u64 },
    #[error("resource limit exceeded: disk, {taken} MiB taken and {asked} asked of {limit}")]
    Disk { taken: u64, asked: u64, limit: u64 },
    #[error("resource limit exceeded: processes, {taken} taken and {asked} asked of {limit}")]
    Processes { taken: u64, asked: u64, limit: u64 },
}

pub fn admit(totals: &Totals, asked: &Demand, limits: &AdmissionLimits) -> Result<(), Scarcity> {
    if let Some(limit) = limits.sandboxes
        && totals.present() >= limit
    {
        return Err(Scarcity::Sandboxes { present: totals.present(), limit });
    }
    let taken = &totals.taken;
    if let Some(limit) = exceeded(taken.memory_mb, asked.memory_mb, limits.memory_mb) {
        return Err(Scarcity::Memory { taken: taken.memory_mb, asked: asked.memory_mb, limit });
    }
    if let Some(limit) = exceeded(taken.disk_mb, asked.disk_mb, limits.disk_mb) {
        return Err(Scarcity::Disk { taken: taken.disk_mb, asked: asked.disk_mb, limit });
    }
    if let Some(limit) = exceeded(taken.processes, asked.processes, limits.processes) {
        return Err(Scarcity::Processes { taken: taken.processes, asked: asked.processes, limit });
    }
    Ok(())
}

fn exceeded(taken: u64, asked: u64, limit: Option<u64>) -> Option<u64> {
    limit.filter(|limit| taken.saturating_add(asked) > *limit)
}
