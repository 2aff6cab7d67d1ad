//! Settings of one agent type, applied over its built-in profile.

use pinfold_lifecycle::profile::{BadLimit, LimitOverrides, Profile};
use pinfold_lifecycle::{ExecutionLimits, Limits, Policy};
use serde::{Deserialize, Serialize};

use super::values::Time;

/// Values that are not set keep the built-in ones.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProfileSettings {
    /// The type that a new type is based on.
    pub(crate) like: Option<String>,
    pub(crate) memory_mb: Option<u64>,
    pub(crate) cpu_millis: Option<u32>,
    pub(crate) cpu_time: Option<Time>,
    pub(crate) network_requests: Option<u64>,
    pub(crate) disk_mb: Option<u64>,
    pub(crate) inodes: Option<u64>,
    pub(crate) processes: Option<u64>,
    pub(crate) open_files: Option<u64>,
    pub(crate) output_mb: Option<u64>,
    pub(crate) operations: Option<u64>,
    pub(crate) timeout: Option<Time>,
    pub(crate) inactivity: Option<Time>,
}

impl ProfileSettings {
    pub(crate) fn of(profile: &Profile) -> Self {
        let Profile { is_agent: _, limits, execution } = profile;
        Self {
            like: None,
            memory_mb: limits.memory_mb,
            cpu_millis: limits.cpu_millis,
            cpu_time: limits.cpu_time_ms.map(Time),
            network_requests: limits.network_requests,
            disk_mb: limits.disk_mb,
            inodes: limits.inodes,
            processes: limits.processes,
            open_files: limits.open_files,
            output_mb: limits.output_mb,
            operations: limits.operations,
            timeout: execution.timeout_ms.map(Time),
            inactivity: execution.inactivity_ms.map(Time),
        }
    }

    /// Checks the limits as for a create request.
    pub(crate) fn applied_to(&self, profile: &Profile, policy: &Policy) -> Result<Profile, BadLimit> {
        let ms = |time: Option<Time>| time.map(|time| time.0);
        let overrides = LimitOverrides {
            limits: Limits {
                memory_mb: self.memory_mb,
                cpu_millis: self.cpu_millis,
                cpu_time_ms: ms(self.cpu_time),
                network_requests: self.network_requests,
                disk_mb: self.disk_mb,
                inodes: self.inodes,
                processes: self.processes,
                open_files: self.open_files,
                output_mb: self.output_mb,
                operations: self.operations,
            },
            execution: ExecutionLimits { timeout_ms: ms(self.timeout), inactivity_ms: ms(self.inactivity) },
            ..LimitOverrides::default()
        };
        let resolved = profile.with(&overrides, policy)?;
        Ok(Profile { limits: resolved.limits, execution: resolved.execution, ..*profile })
    }
}

/// The configuration key of a command line option's limit.
pub(super) fn key_of(typed: &'static str) -> &'static str {
    match typed {
        "memory" => "memory_mb",
        "cpus" => "cpu_millis",
        "cpu-time" => "cpu_time",
        "network-requests" => "network_requests",
        "disk" => "disk_mb",
        "pids" => "processes",
        "open-files" => "open_files",
        "output" => "output_mb",
        "inactivity-timeout" => "inactivity",
        other => other,
    }
}
