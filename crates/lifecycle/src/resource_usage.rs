//! Resources that an instance used during its life, as measured by its provider.

use serde::{Deserialize, Serialize};

/// `None` means not measured, which differs from zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
pub struct ResourceUsage {
    pub cpu_ms: Option<u64>,
    pub memory_peak_bytes: Option<u64>,
    pub io_read_bytes: Option<u64>,
    pub io_written_bytes: Option<u64>,
}
