//! Resource usage of an instance and free capacity of its host.

use serde::{Deserialize, Serialize};

/// Usage measured from the real processes. None: not measured, which differs from zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Usage {
    pub cpu_ms: Option<u64>,
    /// A process inside uses a CPU or waits for one now. On a busy host the CPU time used says little. The
    /// keeper does not count.
    pub runs: Option<bool>,
    pub memory_bytes: Option<u64>,
    pub memory_peak_bytes: Option<u64>,
    pub disk_bytes: Option<u64>,
    pub processes: Option<u64>,
    pub io_read_bytes: Option<u64>,
    pub io_written_bytes: Option<u64>,
    /// Executions started, output chunks kept and file requests served since the start of the instance. It only
    /// grows; activity inside without one of these is not counted.
    pub operations: u64,
}

/// Free capacity. None: cannot be measured, which is never taken for ample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Capacity {
    pub memory_mb_left: Option<u64>,
    pub disk_mb_left: Option<u64>,
    pub processes_left: Option<u64>,
    /// Totals. None also where another limit than the total bounds the free capacity.
    pub memory_mb_total: Option<u64>,
    pub disk_mb_total: Option<u64>,
    pub processes_total: Option<u64>,
    /// Why the sandbox directory cannot be written. More serious than a full disk.
    #[serde(default)]
    pub disk_unusable: Option<String>,
}
