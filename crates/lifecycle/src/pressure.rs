//! Memory pressure and other shortages: how much of each shared resource is allocated, and which idle sandboxes to
//! end, oldest first, until the levels are below the threshold.

use serde::{Deserialize, Serialize};

use crate::SandboxId;

/// A limited resource: either a total of the admission limits, or a resource of the host.
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

/// How much of a resource is in use. Memory and disk in MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLevel {
    pub resource: Resource,
    pub taken: u64,
    pub of: u64,
}

/// The share of a resource at which it counts as scarce, in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold(pub u32);

impl Default for Threshold {
    fn default() -> Self {
        Self(800)
    }
}

impl ResourceLevel {
    #[must_use]
    pub fn exceeds(&self, threshold: Threshold) -> bool {
        u128::from(self.taken) * 1_000 >= u128::from(self.of) * u128::from(threshold.0)
    }

    /// The least amount that must be freed.
    fn excess(&self, threshold: Threshold) -> u64 {
        let allowed = u128::from(self.of) * u128::from(threshold.0) / 1_000;
        self.taken.saturating_sub(u64::try_from(allowed).unwrap_or(u64::MAX))
    }
}

/// An idle sandbox, and the resources that ending it frees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleSandbox {
    pub id: SandboxId,
    pub frees: Vec<(Resource, u64)>,
}

impl IdleSandbox {
    fn frees(&self, resource: Resource) -> u64 {
        self.frees.iter().find(|(freed, _)| *freed == resource).map_or(0, |(_, amount)| *amount)
    }
}

/// Selects the idle sandboxes to end until no resource is scarce. `idle` is ordered oldest first; a sandbox that would
/// free nothing scarce is kept. If all idle sandboxes together would free less than half of the excess, something else
/// uses the resource, and none is ended for it.
#[must_use]
pub fn select_evictions(
    levels: &[ResourceLevel],
    idle: &[IdleSandbox],
    threshold: Threshold,
) -> Vec<SandboxId> {
    let helps_at_all = |level: &&ResourceLevel| {
        let freed: u64 = idle.iter().map(|one| one.frees(level.resource)).sum();
        freed.saturating_mul(2) >= level.excess(threshold)
    };
    let mut levels: Vec<ResourceLevel> = levels.iter().filter(helps_at_all).copied().collect();
    let mut go = Vec::new();
    for one in idle {
        let helps = |level: &ResourceLevel| level.exceeds(threshold) && one.frees(level.resource) > 0;
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

    fn memory(taken: u64) -> ResourceLevel {
        ResourceLevel { resource: Resource::Memory, taken, of: 1_000 }
    }

    fn idle(id: u128, memory_mb: u64) -> IdleSandbox {
        IdleSandbox { id: SandboxId(id), frees: vec![(Resource::Memory, memory_mb)] }
    }

    #[test]
    fn resource_is_scarce_from_the_threshold_on() {
        assert!(memory(800).exceeds(EIGHTY));
        assert!(!memory(799).exceeds(EIGHTY));
        assert!(ResourceLevel { taken: u64::MAX, of: u64::MAX, ..memory(0) }.exceeds(EIGHTY));
    }

    #[test]
    fn oldest_idle_sandboxes_are_ended_until_below_the_threshold() {
        let all = [idle(1, 50), idle(2, 60), idle(3, 70)];

        assert_eq!(select_evictions(&[memory(799)], &all, EIGHTY), []);
        assert_eq!(select_evictions(&[memory(849)], &all, EIGHTY), [SandboxId(1)]);
        assert_eq!(select_evictions(&[memory(850)], &all, EIGHTY), [SandboxId(1), SandboxId(2)]);
        assert_eq!(
            select_evictions(&[memory(1_000)], &all, EIGHTY),
            [SandboxId(1), SandboxId(2), SandboxId(3)]
        );
    }

    #[test]
    fn no_sandbox_is_ended_where_it_would_not_help() {
        let all = [idle(1, 30), idle(2, 30)];

        assert_eq!(select_evictions(&[memory(920)], &all, EIGHTY), [SandboxId(1), SandboxId(2)]);
        assert_eq!(select_evictions(&[memory(921)], &all, EIGHTY), []);
    }

    #[test]
    fn sandbox_that_frees_nothing_scarce_is_kept() {
        let all = [idle(1, 0), idle(2, 60)];

        assert_eq!(select_evictions(&[memory(850)], &all, EIGHTY), [SandboxId(2)]);
    }
}
