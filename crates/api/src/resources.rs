//! What a sandbox uses.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Trouble;

/// Measured from the real processes; what they used in all where the sandbox has ended. None: not counted here, which
/// is not the same as nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Resources {
    /// Over the last moments, of one core: two busy cores are 200.
    pub cpu_percent: Option<f64>,
    pub cpu_ms: Option<u64>,
    pub memory_mb: Option<f64>,
    pub memory_peak_mb: Option<f64>,
    pub memory_limit_mb: Option<u64>,
    /// Since it was created, or from then to its end.
    pub duration_ms: u64,
    /// Executions started, pieces of output kept and requests for files served.
    pub operations: Option<u64>,
    pub processes: Option<u64>,
    pub disk_mb: Option<f64>,
    pub disk_limit_mb: Option<u64>,
    pub io_read_bytes: Option<u64>,
    pub io_written_bytes: Option<u64>,
    /// Requests that were let out. Without a network there are none.
    pub network_requests: u64,
    pub network_requests_limit: Option<u64>,
    #[schema(format = DateTime)]
    pub last_activity: Option<String>,
    #[schema(format = DateTime)]
    pub measured_at: String,
    pub verdict: Verdict,
    /// The verdict in words.
    pub diagnosis: String,
    /// What its figures and its processes say is wrong, the likeliest cause first; nothing where it has ended. An
    /// examination reads its log too, and tries what can be tried.
    pub troubles: Vec<Trouble>,
}

/// What the figures say together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Healthy,
    /// Near 100 % of the processor.
    Busy,
    /// Near 0 % of the processor, and silent.
    Hung,
    /// Memory grows towards its limit.
    Leaking,
    /// It works, and nothing comes of it.
    Silent,
    /// Nothing runs in it.
    Idle,
    Ended,
}
