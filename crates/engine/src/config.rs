//! How the engine itself behaves. What concerns one sandbox is in its policy.

use pinfold_lifecycle::AdmissionLimits;

#[derive(Debug, Clone)]
pub struct Config {
    pub admission: AdmissionLimits,
    /// How long another process's change may go unnoticed.
    pub poll_ms: u64,
    pub heartbeat_ms: u64,
    /// A node on another host whose heartbeat is older counts as dead.
    pub dead_after_ms: u64,
    /// How long an owner has to enforce its own deadlines before anybody else does.
    pub owner_slack_ms: u64,
    pub reconcile_every_ms: u64,
    /// How long records of ended sandboxes are kept, and how long the history is.
    pub keep_records_ms: u64,
    pub keep_history_ms: u64,
    /// Launches, stops and other calls to the provider at one time.
    pub launches: usize,
    pub stops: usize,
    pub questions: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            admission: AdmissionLimits::default(),
            poll_ms: 100,
            heartbeat_ms: 2_000,
            dead_after_ms: 10_000,
            owner_slack_ms: 1_000,
            reconcile_every_ms: 60_000,
            keep_records_ms: 24 * 3_600_000,
            keep_history_ms: 7 * 24 * 3_600_000,
            launches: 16,
            stops: 64,
            questions: 64,
        }
    }
}
