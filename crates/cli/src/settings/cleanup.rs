//! Settings of cleanup, and their conversion to the engine's configuration.

use std::num::NonZeroUsize;

use confique::Config;
use pinfold_engine::{CleanupConfig, Schedule};
use pinfold_lifecycle::{CleanupRules, Threshold};

use super::load::{Loaded, SettingsError};
use super::values::Time;

/// When cleanup runs, and which sandboxes count as stuck. Schedules use crontab syntax, in UTC.
#[derive(Debug, Config)]
#[config(layer_attr(derive(Debug, serde::Serialize)), layer_attr(serde(deny_unknown_fields)))]
pub(crate) struct CleanupSettings {
    /// Schedule of the check for stuck sandboxes, by their records and activity.
    #[config(default = "*/5 * * * *", env = "PINFOLD_CLEANUP_SCHEDULE")]
    pub(crate) schedule: String,
    /// Schedule on which every sandbox older than `max_age` must answer a probe, whatever its record says.
    #[config(default = "*/15 * * * *", env = "PINFOLD_CLEANUP_SCHEDULE_BY_AGE")]
    pub(crate) schedule_by_age: String,
    /// Schedule of the check for resources that run short.
    #[config(default = "* * * * *", env = "PINFOLD_CLEANUP_SCHEDULE_PRESSURE")]
    pub(crate) schedule_pressure: String,
    /// Schedule of the comparison of all records with all instances. The engine also compares once a minute, without
    /// recording a run.
    #[config(default = "0 * * * *", env = "PINFOLD_CLEANUP_SCHEDULE_RECONCILE")]
    pub(crate) schedule_reconcile: String,
    /// A sandbox that has been starting for this time is stopped.
    #[config(default = "10m", env = "PINFOLD_CLEANUP_ORPHAN_TIMEOUT")]
    pub(crate) orphan_timeout: Time,
    /// A sandbox of this age whose executions showed no activity for this time is stopped: no output, no requests, no CPU
    /// use. An execution with a longer inactivity timeout keeps it.
    #[config(default = "30m", env = "PINFOLD_CLEANUP_STUCK_TIMEOUT")]
    pub(crate) stuck_timeout: Time,
    /// A sandbox of this age is stopped if it is unhealthy, or if it had no execution and no request for this time. A
    /// sandbox with a longer idle timeout keeps it.
    #[config(default = "10m", env = "PINFOLD_CLEANUP_MAX_AGE")]
    pub(crate) max_age: Time,
    /// A sandbox is stopped if one of its deadlines passed this long ago without effect.
    #[config(default = "1m", env = "PINFOLD_CLEANUP_OVERDUE")]
    pub(crate) overdue: Time,
    /// Sandboxes stopped in parallel.
    #[config(default = 50, env = "PINFOLD_CLEANUP_BATCH")]
    pub(crate) batch: NonZeroUsize,
    /// How long one stop may take before the run counts it as failed. The stop itself continues.
    #[config(default = "60s", env = "PINFOLD_CLEANUP_ITEM_TIMEOUT")]
    pub(crate) item_timeout: Time,
    /// Used fraction of a resource above which it runs short. Then data past its retention is deleted, and after that idle
    /// sandboxes are stopped, oldest first, until the use is below.
    #[config(default = 0.8, env = "PINFOLD_CLEANUP_PRESSURE")]
    pub(crate) pressure: f64,
}

impl Loaded {
    pub(super) fn cleanup(&self) -> Result<CleanupConfig, SettingsError> {
        let settings = &self.settings.cleanup;
        let schedule = |field: &str, given: &str| {
            Schedule::parse(given)
                .map_err(|error| self.invalid(&format!("cleanup.{field}"), error.to_string()))
        };
        Ok(CleanupConfig {
            rules: CleanupRules {
                orphan_ms: settings.orphan_timeout.0,
                stuck_ms: settings.stuck_timeout.0,
                max_age_ms: settings.max_age.0,
                overdue_ms: settings.overdue.0,
            },
            scheduled: schedule("schedule", &settings.schedule)?,
            by_age: schedule("schedule_by_age", &settings.schedule_by_age)?,
            pressure: schedule("schedule_pressure", &settings.schedule_pressure)?,
            reconcile: schedule("schedule_reconcile", &settings.schedule_reconcile)?,
            batch: settings.batch.get(),
            item_ms: settings.item_timeout.0,
            threshold: threshold(settings.pressure),
            ..CleanupConfig::default()
        })
    }
}

/// A fraction in thousandths.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the bounds of the setting are 0.1 and 1"
)]
fn threshold(share: f64) -> Threshold {
    Threshold((share * 1_000.0).round() as u32)
}
