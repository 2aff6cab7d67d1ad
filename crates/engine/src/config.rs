//! Configuration of the engine. Settings of a single sandbox are in its policy.

use pinfold_lifecycle::{AdmissionLimits, HostReserve, QuotaRules};

use crate::{CleanupConfig, PoolPlan};

#[derive(Debug, Clone)]
pub struct Config {
    pub admission: AdmissionLimits,
    pub quotas: QuotaRules,
    /// Capacity that must stay free on the host.
    pub keep: HostReserve,
    /// How long a change of another process may go unnoticed.
    pub poll_ms: u64,
    pub heartbeat_ms: u64,
    /// A node on another host with an older heartbeat counts as dead.
    pub dead_after_ms: u64,
    /// How long an owner has to enforce its own deadlines before other nodes do.
    pub owner_slack_ms: u64,
    pub reconcile_every_ms: u64,
    /// Retention of ended sandboxes' records, and of the history.
    pub keep_records_ms: u64,
    pub keep_history_ms: u64,
    /// Concurrent launches, stops and other calls to the provider.
    pub launches: usize,
    pub stops: usize,
    pub instance_calls: usize,
    pub cleanup: CleanupConfig,
    /// Shapes kept in the warm pool. Empty: no pool.
    pub pool: Vec<PoolPlan>,
    /// Maximum age of an unclaimed pooled instance.
    pub pool_life_ms: u64,
    pub pool_every_ms: u64,
    /// Concurrent launches per pool plan.
    pub pool_launches: usize,
    /// How long a create request waits for pooled instances to be discarded.
    pub pool_yield_ms: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            admission: AdmissionLimits::default(),
            quotas: QuotaRules::default(),
            keep: HostReserve { disk_mb: 512, memory_mb: 64, processes: 256 },
            poll_ms: 100,
            heartbeat_ms: 2_000,
            dead_after_ms: 10_000,
            owner_slack_ms: 1_000,
            reconcile_every_ms: 60_000,
            keep_records_ms: 24 * 3_600_000,
            keep_history_ms: 7 * 24 * 3_600_000,
            launches: 16,
            stops: 1_024,
            instance_calls: 64,
            cleanup: CleanupConfig::default(),
            pool: Vec::new(),
            pool_life_ms: 30 * 60_000,
            pool_every_ms: 1_000,
            pool_launches: 2,
            pool_yield_ms: 10_000,
        }
    }
}
