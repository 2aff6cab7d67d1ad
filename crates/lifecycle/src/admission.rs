//! Whether there is room for one more. Decided inside the transaction that creates, over totals that the same
//! transaction sees, so that no burst of requests gets past a limit.

use serde::{Deserialize, Serialize};

use crate::TokenId;

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
    /// Bodies that wait in the pool. They were not created yet, but what they take is taken.
    pub pooled: u64,
    pub taken: Demand,
}

impl Totals {
    /// Those not yet proven gone.
    #[must_use]
    pub fn present(&self) -> u64 {
        self.created.saturating_sub(self.destroyed)
    }

    /// Those not yet proven gone and those that wait in the pool.
    #[must_use]
    pub fn leased(&self) -> u64 {
        self.present().saturating_add(self.pooled)
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
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
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
    #[error("quota of the token reached: {taken} of {limit} sandboxes")]
    Token { token: TokenId, taken: u64, limit: u64 },
    #[error("quota of the label `{label}={value}` reached: {taken} of {limit} sandboxes")]
    Label { label: String, value: String, taken: u64, limit: u64 },
    /// What is left is kept for those who came before and wait.
    #[error("what room there is is kept for {ahead} who wait for it")]
    Queue { ahead: u64 },
}

impl Scarcity {
    /// Every word there is.
    pub const WORDS: [&str; 7] =
        ["sandboxes", "memory", "disk", "processes", "token_quota", "label_quota", "queue"];

    /// One word for what is short, as it is counted.
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

pub fn admit(totals: &Totals, asked: &Demand, limits: &AdmissionLimits) -> Result<(), Scarcity> {
    if let Some(limit) = limits.sandboxes
        && totals.leased() >= limit
    {
        return Err(Scarcity::Sandboxes { present: totals.leased(), limit });
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

/// Whether there is room for one more in the pool. It never takes the last place: that is for whoever asks.
pub fn admit_to_pool(totals: &Totals, asked: &Demand, limits: &AdmissionLimits) -> Result<(), Scarcity> {
    let taken = Demand {
        memory_mb: totals.taken.memory_mb.saturating_add(asked.memory_mb),
        disk_mb: totals.taken.disk_mb.saturating_add(asked.disk_mb),
        processes: totals.taken.processes.saturating_add(asked.processes),
    };
    admit(&Totals { pooled: totals.pooled.saturating_add(1), taken, ..*totals }, asked, limits)
}

fn exceeded(taken: u64, asked: u64, limit: Option<u64>) -> Option<u64> {
    limit.filter(|limit| taken.saturating_add(asked) > *limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_in_the_list() {
        // One that is added breaks this match, and belongs into the lists.
        let place = |short: &Scarcity| match short {
            Scarcity::Sandboxes { .. } => 0,
            Scarcity::Memory { .. } => 1,
            Scarcity::Disk { .. } => 2,
            Scarcity::Processes { .. } => 3,
            Scarcity::Token { .. } => 4,
            Scarcity::Label { .. } => 5,
            Scarcity::Queue { .. } => 6,
        };
        let (taken, asked, limit) = (1, 1, 1);
        let all = [
            Scarcity::Sandboxes { present: 1, limit },
            Scarcity::Memory { taken, asked, limit },
            Scarcity::Disk { taken, asked, limit },
            Scarcity::Processes { taken, asked, limit },
            Scarcity::Token { token: TokenId(1), taken, limit },
            Scarcity::Label { label: "team".into(), value: "a".into(), taken, limit },
            Scarcity::Queue { ahead: 1 },
        ];

        assert_eq!(all.each_ref().map(Scarcity::word), Scarcity::WORDS);
        assert!(all.iter().enumerate().all(|(at, short)| place(short) == at));
    }
}
