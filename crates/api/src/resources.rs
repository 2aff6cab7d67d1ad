//! What a sandbox uses.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Measured from the real processes; what they used in all where the sandbox has ended. None: not counted here, which
/// is not the same as nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Resources {
    /// Over the last moments, of one core: two busy cores are 200.
    pub cpu_percent: Option<f64>,
    pub cpu_ms: Option<u64>,
    pub memory_mb: Option<f64>,
    pub memory_peak_mb: Option<f64>,
    /// Since it was created, or from then to its end.
    pub duration_ms: u64,
    /// Executions started, pieces of output kept and requests for files served.
    pub operations: Option<u64>,
    pub processes: Option<u64>,
    pub disk_mb: Option<f64>,
    pub io_read_bytes: Option<u64>,
    pub io_written_bytes: Option<u64>,
    #[schema(format = DateTime)]
    pub measured_at: String,
}
