//! What a body uses and what its host has left.

use serde::{Deserialize, Serialize};

/// Measured from the real processes, not from stored state. None: not counted here, which is not the same as nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Usage {
    pub cpu_ms: Option<u64>,
    /// At this moment something inside uses a processor, or would if one were free: on a busy host the time that was
    /// used says little. The keeper is left out.
    pub runs: Option<bool>,
    pub memory_bytes: Option<u64>,
    pub memory_peak_bytes: Option<u64>,
    pub disk_bytes: Option<u64>,
    pub processes: Option<u64>,
    pub io_read_bytes: Option<u64>,
    pub io_written_bytes: Option<u64>,
    /// Executions started, pieces of output kept and requests for files served, since the body was made. It only
    /// grows, and nothing that happens inside without one of these is in it.
    pub operations: u64,
}

/// None: cannot be measured here, which is never taken for plenty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Capacity {
    pub memory_mb_left: Option<u64>,
    pub disk_mb_left: Option<u64>,
    pub processes_left: Option<u64>,
    /// Of how much that is left. None also where something else than the whole bounds what is left.
    pub memory_mb_total: Option<u64>,
    pub disk_mb_total: Option<u64>,
    pub processes_total: Option<u64>,
    /// How many bodies can still be given ids of their own.
    pub ids_left: Option<u64>,
    /// The evidence that nothing can be written where sandboxes are kept. That is more than being full.
    #[serde(default)]
    pub disk_unusable: Option<String>,
}
