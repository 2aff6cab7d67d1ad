//! How much of what all sandboxes share is taken, and who has to go so that it is less: those that do nothing, the
//! oldest first, and no more of them than it takes.

use serde::{Deserialize, Serialize};

use crate::SandboxId;

/// What there is only so much of: what limits of admission promise away, and what the host has in fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    Sandboxes,
    Memory,
    Disk,
    Processes,
    HostMemory,
    HostDisk,
    HostProcesses,
}

/// How much of one resource is taken. Memory and disk in MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    pub resource: Resource,
    pub taken: u64,
    pub of: u64,
}

/// A share from which on a resource is scarce, in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold(pub u32);

impl Default for Threshold {
    fn default() -> Self {
        Self(800)
    }
}

impl Level {
    #[must_use]
    pub fn is_scarce(&self, threshold: Threshold) -> bool {
        u128::from(self.taken) * 1_000 >= u128::from(self.of) * u128::from(threshold.0)
    }

    /// How much would have to be given back, at the least.
    fn too_much(&self, threshold: Threshold) -> u64 {
        let allowed = u128::from(self.of) * u128::from(threshold.0) / 1_000;
        self.taken.saturating_sub(u64::try_from(allowed).unwrap_or(u64::MAX))
    }
}

/// A sandbox that does nothing, and what its end gives back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idle {
    pub id: SandboxId,
    pub frees: Vec<(Resource, u64)>,
}

impl Idle {
    fn frees(&self, resource: Resource) -> u64 {
        self.frees.iter().find(|(freed, _)| *freed == resource).map_or(0, |(_, amount)| *amount)
    }
}

/// Which of those that do nothing have to go until nothing is scarce. `idle` comes with the oldest first, and one whose
/// end would give back nothing that is scarce stays. Where all of them together would not make up for half of what is too
/// much, others have taken it, and nobody goes in vain.
#[must_use]
pub fn relieve(levels: &[Level], idle: &[Idle], threshold: Threshold) -> Vec<SandboxId> {
    let helps_at_all = |level: &&Level| {
        let freed: u64 = idle.iter().map(|one| one.frees(level.resource)).sum();
        freed.saturating_mul(2) >= level.too_much(threshold)
    };
    let mut levels: Vec<Level> = levels.iter().filter(helps_at_all).copied().collect();
    let mut go = Vec::new();
    for one in idle {
        let helps = |level: &Level| level.is_scarce(threshold) && one.frees(level.resource) > 0;
        if levels.iter().any(helps) {
            go.push(one.id);
            for level in &mut levels {
                level.taken = level.taken.saturating_sub(one.frees(level.resource));
            }
        }
    }
    go
}

#[cfg(test)]
mod tests {
    use super::*;

    const EIGHTY: Threshold = Threshold(800);

    fn memory(taken: u64) -> Level {
        Level { resource: Resource::Memory, taken, of: 1_000 }
    }

    fn idle(id: u128, memory_mb: u64) -> Idle {
        Idle { id: SandboxId(id), frees: vec![(Resource::Memory, memory_mb)] }
    }

    #[test]
    fn eighty_of_a_hundred_is_scarce_and_less_is_not() {
        assert!(memory(800).is_scarce(EIGHTY));
        assert!(!memory(799).is_scarce(EIGHTY));
        assert!(Level { taken: u64::MAX, of: u64::MAX, ..memory(0) }.is_scarce(EIGHTY));
    }

    #[test]
    fn the_oldest_go_until_it_is_below_and_no_more() {
        let all = [idle(1, 50), idle(2, 60), idle(3, 70)];

        assert_eq!(relieve(&[memory(799)], &all, EIGHTY), []);
        assert_eq!(relieve(&[memory(849)], &all, EIGHTY), [SandboxId(1)]);
        assert_eq!(relieve(&[memory(850)], &all, EIGHTY), [SandboxId(1), SandboxId(2)]);
        assert_eq!(relieve(&[memory(1_000)], &all, EIGHTY), [SandboxId(1), SandboxId(2), SandboxId(3)]);
    }

    #[test]
    fn nobody_goes_where_it_would_not_help() {
        let all = [idle(1, 30), idle(2, 30)];

        assert_eq!(relieve(&[memory(920)], &all, EIGHTY), [SandboxId(1), SandboxId(2)]);
        assert_eq!(relieve(&[memory(921)], &all, EIGHTY), []);
    }

    #[test]
    fn one_whose_end_gives_nothing_back_stays() {
        let all = [idle(1, 0), idle(2, 60)];

        assert_eq!(relieve(&[memory(850)], &all, EIGHTY), [SandboxId(2)]);
    }
}
