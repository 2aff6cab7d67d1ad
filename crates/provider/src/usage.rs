//! What a body uses and what its host has left.

use serde::{Deserialize, Serialize};

/// Measured from the real processes, not from stored state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Usage {
    pub cpu_ms: u64,
    pub memory_bytes: u64,
    pub memory_peak_bytes: u64,
    pub disk_bytes: u64,
    pub processes: u64,
    /// Grows with whatever the body does that can be counted from outside.
    pub operations: u64,
}

/// None: cannot be measured here, which is never taken for plenty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Capacity {
    pub memory_mb_left: Option<u64>,
    pub disk_mb_left: Option<u64>,
    pub processes_left: Option<u64>,
    /// How many bodies can still be given ids of their own.
    pub ids_left: Option<u64>,
}
