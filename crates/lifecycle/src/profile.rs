//! Profiles: default limits by agent type, overrides by the request, and validation.

mod bounds;
mod built_in;
mod set;

pub use bounds::{BadLimit, Unit};
pub use built_in::{DEFAULT, DEFAULT_NAME, PROFILES};
pub use set::{Profiles, UnknownProfile};

use crate::{ExecutionLimits, Limits, Policy};

/// The limits of one agent type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Profile {
    /// True for agent types, false for the default profile of manual runs.
    pub is_agent: bool,
    pub limits: Limits,
    pub execution: ExecutionLimits,
}

/// Limits that the request sets itself. `None`: the profile's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LimitOverrides {
    pub limits: Limits,
    pub execution: ExecutionLimits,
    pub idle_ms: Option<u64>,
    pub max_life_ms: Option<u64>,
}

/// The limits of a sandbox after merging profile and overrides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResolvedLimits {
    pub limits: Limits,
    pub execution: ExecutionLimits,
    pub idle_ms: Option<u64>,
    pub max_life_ms: u64,
}

impl Profile {
    /// Merges the overrides into the profile. An invalid override is refused; a value of the profile that conflicts
    /// with an override is reduced to fit.
    pub fn with(&self, overrides: &LimitOverrides, policy: &Policy) -> Result<ResolvedLimits, BadLimit> {
        bounds::check(overrides, policy)?;
        let max_life_ms = overrides.max_life_ms.unwrap_or(policy.max_life_ms);
        let within_life = |ms: u64| ms.min(max_life_ms);
        let timeout_ms = overrides.execution.timeout_ms.or(self.execution.timeout_ms.map(within_life));
        let within_time = |ms: u64| ms.min(timeout_ms.unwrap_or(max_life_ms));
        let inactivity_ms =
            overrides.execution.inactivity_ms.or(self.execution.inactivity_ms.map(within_time));
        // 0 turns the profile's inactivity timeout off.
        let inactivity_ms = inactivity_ms.filter(|ms| *ms > 0);
        Ok(ResolvedLimits {
            limits: self.limits.overridden_by(&overrides.limits),
            execution: ExecutionLimits { timeout_ms, inactivity_ms },
            idle_ms: overrides.idle_ms.or(policy.idle_ms.map(within_life)),
            max_life_ms,
        })
    }
}

impl Limits {
    fn overridden_by(&self, overrides: &Self) -> Self {
        Self {
            memory_mb: overrides.memory_mb.or(self.memory_mb),
            cpu_millis: overrides.cpu_millis.or(self.cpu_millis),
            cpu_time_ms: overrides.cpu_time_ms.or(self.cpu_time_ms),
            network_requests: overrides.network_requests.or(self.network_requests),
            disk_mb: overrides.disk_mb.or(self.disk_mb),
            inodes: overrides.inodes.or(self.inodes),
            processes: overrides.processes.or(self.processes),
            open_files: overrides.open_files.or(self.open_files),
            output_mb: overrides.output_mb.or(self.output_mb),
            operations: overrides.operations.or(self.operations),
        }
    }
}

#[cfg(test)]
mod tests;
