//! Profiles: what a sandbox gets by the type of its agent, what may be asked for instead, and what is nonsense.

mod bounds;
mod known;
mod set;

pub use bounds::{BadLimit, Unit};
pub use known::{DEFAULT, DEFAULT_NAME, PROFILES};
pub use set::{Profiles, UnknownProfile};

use crate::{ExecutionLimits, Limits, Policy};

/// What one type of agent gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Profile {
    /// Of an agent, as opposed to whatever somebody runs by hand.
    pub is_agent: bool,
    pub limits: Limits,
    pub execution: ExecutionLimits,
}

/// What is wanted otherwise than the profile has it. None: as the profile has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wishes {
    pub limits: Limits,
    pub execution: ExecutionLimits,
    pub idle_ms: Option<u64>,
    pub max_life_ms: Option<u64>,
}

/// What a sandbox is given: the profile and the wishes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allotment {
    pub limits: Limits,
    pub execution: ExecutionLimits,
    pub idle_ms: Option<u64>,
    pub max_life_ms: u64,
}

impl Profile {
    /// Puts the wishes in the place of the profile's own figures. A wish that is nonsense is refused; a figure of the
    /// profile that does not fit a wish gives way to it.
    pub fn with(&self, wishes: &Wishes, policy: &Policy) -> Result<Allotment, BadLimit> {
        bounds::check(wishes, policy)?;
        let max_life_ms = wishes.max_life_ms.unwrap_or(policy.max_life_ms);
        let within_life = |ms: u64| ms.min(max_life_ms);
        let timeout_ms = wishes.execution.timeout_ms.or(self.execution.timeout_ms.map(within_life));
        let within_time = |ms: u64| ms.min(timeout_ms.unwrap_or(max_life_ms));
        let inactivity_ms = wishes.execution.inactivity_ms.or(self.execution.inactivity_ms.map(within_time));
        Ok(Allotment {
            limits: self.limits.overridden_by(&wishes.limits),
            execution: ExecutionLimits { timeout_ms, inactivity_ms },
            idle_ms: wishes.idle_ms.or(policy.idle_ms.map(within_life)),
            max_life_ms,
        })
    }
}

impl Limits {
    fn overridden_by(&self, wishes: &Self) -> Self {
        Self {
            memory_mb: wishes.memory_mb.or(self.memory_mb),
            cpu_millis: wishes.cpu_millis.or(self.cpu_millis),
            cpu_time_ms: wishes.cpu_time_ms.or(self.cpu_time_ms),
            network_requests: wishes.network_requests.or(self.network_requests),
            disk_mb: wishes.disk_mb.or(self.disk_mb),
            inodes: wishes.inodes.or(self.inodes),
            processes: wishes.processes.or(self.processes),
            open_files: wishes.open_files.or(self.open_files),
            output_mb: wishes.output_mb.or(self.output_mb),
            operations: wishes.operations.or(self.operations),
        }
    }
}

#[cfg(test)]
mod tests;
