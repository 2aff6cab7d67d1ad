//! What a type of agent gets otherwise than is built in.

use pinfold_lifecycle::profile::{BadLimit, Profile, Wishes};
use pinfold_lifecycle::{ExecutionLimits, Limits, Policy};
use serde::{Deserialize, Serialize};

use super::values::Time;

/// What is not said stays as it is.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProfileSettings {
    /// The type that a new one begins from.
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

    /// Refused when it is nonsense, as a wish for a sandbox is.
    pub(crate) fn applied_to(&self, profile: &Profile, policy: &Policy) -> Result<Profile, BadLimit> {
        let ms = |time: Option<Time>| time.map(|time| time.0);
        let wishes = Wishes {
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
            ..Wishes::default()
        };
        let given = profile.with(&wishes, policy)?;
        Ok(Profile { limits: given.limits, execution: given.execution, ..*profile })
    }
}

/// Limits have names of their own where people type them.
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
