//! The closed list of causes of death.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a sandbox or an execution ended. It is stored once and never rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    Completed,
    ExitNonzero,
    StoppedByUser,
    TimeLimit,
    Inactivity,
    Idle,
    MaxLife,
    MemoryLimit,
    CpuLimit,
    NetworkLimit,
    DiskLimit,
    ProcessLimit,
    OutputLimit,
    OperationLimit,
    StartDeadline,
    StartFailed,
    ProbeFailed,
    Cancelled,
    CallerGone,
    Shutdown,
    Orphan,
    Lost,
    HostRestarted,
    EvictedEmergency,
    ProviderError,
    /// Process 1 of its instance was killed from outside.
    KeeperKilled,
}

impl Cause {
    /// The name that users see, as in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::ExitNonzero => "exit_nonzero",
            Self::StoppedByUser => "stopped_by_user",
            Self::TimeLimit => "time_limit",
            Self::Inactivity => "inactivity",
            Self::Idle => "idle",
            Self::MaxLife => "max_life",
            Self::MemoryLimit => "memory_limit",
            Self::CpuLimit => "cpu_limit",
            Self::NetworkLimit => "network_limit",
            Self::DiskLimit => "disk_limit",
            Self::ProcessLimit => "process_limit",
            Self::OutputLimit => "output_limit",
            Self::OperationLimit => "operation_limit",
            Self::StartDeadline => "start_deadline",
            Self::StartFailed => "start_failed",
            Self::ProbeFailed => "probe_failed",
            Self::Cancelled => "cancelled",
            Self::CallerGone => "caller_gone",
            Self::Shutdown => "shutdown",
            Self::Orphan => "orphan",
            Self::Lost => "lost",
            Self::HostRestarted => "host_restarted",
            Self::EvictedEmergency => "evicted_emergency",
            Self::ProviderError => "provider_error",
            Self::KeeperKilled => "keeper_killed",
        }
    }

    /// Whether a retry on a new instance may succeed. True where the instance failed rather than the command, and the
    /// end was not requested.
    #[must_use]
    pub fn is_retryable(self) -> bool {
        match self {
            Self::StartDeadline
            | Self::StartFailed
            | Self::ProbeFailed
            | Self::Lost
            | Self::HostRestarted
            | Self::ProviderError
            | Self::KeeperKilled => true,
            Self::Completed
            | Self::ExitNonzero
            | Self::StoppedByUser
            | Self::TimeLimit
            | Self::Inactivity
            | Self::Idle
            | Self::MaxLife
            | Self::MemoryLimit
            | Self::CpuLimit
            | Self::NetworkLimit
            | Self::DiskLimit
            | Self::ProcessLimit
            | Self::OutputLimit
            | Self::OperationLimit
            | Self::Cancelled
            | Self::CallerGone
            | Self::Shutdown
            | Self::Orphan
            | Self::EvictedEmergency => false,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
