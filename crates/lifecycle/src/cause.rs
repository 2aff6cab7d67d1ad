//! Why something ended: one closed list, so that nobody has to read a message to know.

use serde::{Deserialize, Serialize};

/// The one durable cause of death of a sandbox or an execution.
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
}

impl Cause {
    /// Whether another body may fare better: what failed was the body, not the work, and nobody wanted the end.
    #[must_use]
    pub fn may_be_tried_again(self) -> bool {
        match self {
            Self::StartDeadline
            | Self::StartFailed
            | Self::ProbeFailed
            | Self::Lost
            | Self::HostRestarted
            | Self::ProviderError => true,
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
