//! What whoever runs Pinfold here has decided for all sandboxes.

use pinfold_lifecycle::Policy;
use pinfold_lifecycle::profile::Profiles;

use crate::alerts::AlertsConfig;

#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// What each type of agent gets.
    pub profiles: Profiles,
    /// Of a sandbox for which nothing else is asked.
    pub policy: Policy,
    /// When somebody is called, and how.
    pub alerts: AlertsConfig,
    /// How long an idempotency key holds.
    pub keep_keys: KeepKeys,
    /// When a list points at a sandbox.
    pub flags: FlagRules,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepKeys {
    pub ms: u64,
}

impl Default for KeepKeys {
    fn default() -> Self {
        Self { ms: 24 * 3_600_000 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlagRules {
    /// A sandbox that is older is flagged as stuck.
    pub stuck_ms: u64,
    /// One in which something has run for longer is flagged as long running.
    pub long_running_ms: u64,
}

impl Default for FlagRules {
    /// Most runs, and most work, are over by then.
    fn default() -> Self {
        Self { stuck_ms: 10 * 60_000, long_running_ms: 5 * 60_000 }
    }
}
