//! What a body has used by its end, as its provider counted it.

use serde::{Deserialize, Serialize};

/// None: not counted here, which is not the same as nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct Used {
    pub cpu_ms: Option<u64>,
    pub memory_peak_bytes: Option<u64>,
    pub io_read_bytes: Option<u64>,
    pub io_written_bytes: Option<u64>,
}
