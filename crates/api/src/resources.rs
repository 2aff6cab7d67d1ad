//! Resource usage of one sandbox.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Trouble;

/// Measured from the processes; totals once the sandbox has ended. Null: not measured, which is not 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Resources {
    /// Current CPU usage relative to one core: two busy cores are 200.
    pub cpu_percent: Option<f64>,
    pub cpu_ms: Option<u64>,
    pub memory_mb: Option<f64>,
    pub memory_peak_mb: Option<f64>,
    pub memory_limit_mb: Option<u64>,
    /// From creation until now, or until its end.
    pub duration_ms: u64,
    /// Executions started, output chunks stored and file requests served.
    pub operations: Option<u64>,
    pub processes: Option<u64>,
    pub disk_mb: Option<f64>,
    pub disk_limit_mb: Option<u64>,
    pub io_read_bytes: Option<u64>,
    pub io_written_bytes: Option<u64>,
    /// Outgoing requests. Always 0 without a network.
    pub network_requests: u64,
    pub network_requests_limit: Option<u64>,
    #[schema(format = DateTime)]
    pub last_activity: Option<String>,
    #[schema(format = DateTime)]
    pub measured_at: String,
    pub verdict: Verdict,
    /// The verdict as text.
    pub diagnosis: String,
    /// Problems seen from usage and processes, most likely cause first; empty once it has ended. `examine` also reads
    /// the log and runs probes.
    pub troubles: Vec<Trouble>,
}

/// The overall assessment of the usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Healthy,
    /// CPU usage near 100 %.
    Busy,
    /// CPU usage near 0 %, and no output.
    Hung,
    /// Memory grows towards its limit.
    Leaking,
    /// It uses CPU but produces no output.
    Silent,
    /// No execution is running.
    Idle,
    Ended,
}
