//! How the engine itself behaves. What concerns one sandbox is in its policy.

use pinfold_lifecycle::{AdmissionLimits, QuotaRules, Reserve};

use crate::{CleanupConfig, PoolPlan};

#[derive(Debug, Clone)]
pub struct Config {
    pub admission: AdmissionLimits,
    pub quotas: QuotaRules,
    /// What stays free on the host itself.
    pub keep: Reserve,
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
    /// What is done about sandboxes that are stuck, and when.
    pub cleanup: CleanupConfig,
    /// What is kept ready ahead of need. Empty: nothing is.
    pub pool: Vec<PoolPlan>,
    /// A body that nobody was given ends at this age.
    pub pool_life_ms: u64,
    pub pool_every_ms: u64,
    /// Bodies of one plan that are launched at one time.
    pub pool_launches: usize,
    /// How long a create waits for the pool to make room.
    pub pool_yield_ms: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            admission: AdmissionLimits::default(),
            quotas: QuotaRules::default(),
            keep: Reserve { disk_mb: 512, memory_mb: 64, processes: 256 },
            poll_ms: 100,
            heartbeat_ms: 2_000,
            dead_after_ms: 10_000,
            owner_slack_ms: 1_000,
            reconcile_every_ms: 60_000,
            keep_records_ms: 24 * 3_600_000,
            keep_history_ms: 7 * 24 * 3_600_000,
            launches: 16,
            stops: 1_024,
            questions: 64,
            cleanup: CleanupConfig::default(),
            pool: Vec::new(),
            pool_life_ms: 30 * 60_000,
            pool_every_ms: 1_000,
            pool_launches: 2,
            pool_yield_ms: 10_000,
        }
    }
}
