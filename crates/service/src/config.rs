//! Operator settings that apply to all sandboxes.

use pinfold_lifecycle::profile::Profiles;
use pinfold_lifecycle::{Policy, Recovery};

use pinfold_notify::AlertsConfig;

#[derive(Debug, Clone)]
pub struct ServiceConfig {
    /// The limits of each agent type.
    pub profiles: Profiles,
    /// The default policy of a sandbox.
    pub policy: Policy,
    /// Alert thresholds, receivers and delivery.
    pub alerts: AlertsConfig,
    /// How long an idempotency key is remembered.
    pub keep_keys: IdempotencyKeyRetention,
    /// When a list flags a sandbox.
    pub flags: FlagThresholds,
    /// Retries of agent runs.
    pub recovery: Recovery,
}

impl Default for ServiceConfig {
    /// Three retries of an agent run.
    fn default() -> Self {
        Self {
            profiles: Profiles::default(),
            policy: Policy::default(),
            alerts: AlertsConfig::default(),
            keep_keys: IdempotencyKeyRetention::default(),
            flags: FlagThresholds::default(),
            recovery: Recovery { attempts: 4, ..Recovery::default() },
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdempotencyKeyRetention {
    pub ms: u64,
}

impl Default for IdempotencyKeyRetention {
    fn default() -> Self {
        Self { ms: 24 * 3_600_000 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlagThresholds {
    /// Older sandboxes are flagged as old.
    pub old_ms: u64,
    /// Sandboxes with an execution that runs longer are flagged as long running.
    pub long_running_ms: u64,
}

impl Default for FlagThresholds {
    /// Most sandboxes and most executions end sooner.
    fn default() -> Self {
        Self { old_ms: 10 * 60_000, long_running_ms: 5 * 60_000 }
    }
}
