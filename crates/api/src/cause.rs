//! Why a sandbox or an execution ended.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The one durable cause of an end. The list is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
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
    KeeperKilled,
}
