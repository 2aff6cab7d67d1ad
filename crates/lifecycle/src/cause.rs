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
