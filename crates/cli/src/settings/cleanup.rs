//! What can be decided about the cleanup of sandboxes that are stuck.

use std::num::NonZeroUsize;

use confique::Config;
use pinfold_engine::{CleanupConfig, Schedule};
use pinfold_lifecycle::{CleanupRules, Threshold};

use super::load::{Loaded, SettingsError};
use super::values::Time;

/// When what is stuck is ended, and what counts as stuck. Schedules are written as in a crontab, in UTC.
#[derive(Debug, Config)]
#[config(layer_attr(derive(Debug, serde::Serialize)), layer_attr(serde(deny_unknown_fields)))]
pub(crate) struct CleanupSettings {
    /// When what is stuck is looked for, by what is recorded of it and by its signs of life.
    #[config(default = "*/5 * * * *", env = "PINFOLD_CLEANUP_SCHEDULE")]
    pub(crate) schedule: String,
    /// When all that is older than `max_age` has to answer, whatever is recorded of it.
    #[config(default = "*/15 * * * *", env = "PINFOLD_CLEANUP_SCHEDULE_BY_AGE")]
    pub(crate) schedule_by_age: String,
    /// When it is measured whether something runs short.
    #[config(default = "* * * * *", env = "PINFOLD_CLEANUP_SCHEDULE_PRESSURE")]
    pub(crate) schedule_pressure: String,
    /// When every record is compared with every body. That is done once a minute besides, without being noted.
    #[config(default = "0 * * * *", env = "PINFOLD_CLEANUP_SCHEDULE_RECONCILE")]
    pub(crate) schedule_reconcile: String,
    /// A sandbox that has been starting for so long is ended.
    #[config(default = "10m", env = "PINFOLD_CLEANUP_ORPHAN_TIMEOUT")]
    pub(crate) orphan_timeout: Time,
    /// A sandbox of this age whose work gave no sign of life for so long is ended: no output, no use of it, no time of
    /// the processor. Work that was allowed a longer silence has that.
    #[config(default = "30m", env = "PINFOLD_CLEANUP_STUCK_TIMEOUT")]
    pub(crate) stuck_timeout: Time,
    /// A sandbox of this age is ended if it is unhealthy, or if it has no work and nobody used it for so long. One that
    /// was allowed to be idle for longer has that.
    #[config(default = "10m", env = "PINFOLD_CLEANUP_MAX_AGE")]
    pub(crate) max_age: Time,
    /// A sandbox is ended if one of its own deadlines is past by so much and nobody has seen to it.
    #[config(default = "1m", env = "PINFOLD_CLEANUP_OVERDUE")]
    pub(crate) overdue: Time,
    /// Sandboxes that are ended side by side.
    #[config(default = 50, env = "PINFOLD_CLEANUP_BATCH")]
    pub(crate) batch: NonZeroUsize,
    /// How long the end of each may take before it counts as failed. It goes on all the same.
    #[config(default = "60s", env = "PINFOLD_CLEANUP_ITEM_TIMEOUT")]
    pub(crate) item_timeout: Time,
    /// The share of a resource from which on it runs short: what is past its time goes then, and after it sandboxes
    /// that do nothing, the oldest first, until it is less.
    #[config(default = 0.8, env = "PINFOLD_CLEANUP_PRESSURE")]
    pub(crate) pressure: f64,
}

const HOUR_MS: u64 = 3_600_000;

impl Loaded {
    pub(super) fn cleanup(&self) -> Result<CleanupConfig, SettingsError> {
        let asked = &self.settings.cleanup;
        let schedule = |field: &str, given: &str| {
            Schedule::parse(given)
                .map_err(|error| self.refused(&format!("cleanup.{field}"), error.to_string()))
        };
        for (field, given) in [
            ("orphan_timeout", asked.orphan_timeout),
            ("stuck_timeout", asked.stuck_timeout),
            ("max_age", asked.max_age),
            ("overdue", asked.overdue),
            ("item_timeout", asked.item_timeout),
        ] {
            self.check_range(&format!("cleanup.{field}"), given, 1_000, 30 * 24 * HOUR_MS)?;
        }
        Ok(CleanupConfig {
            rules: CleanupRules {
                orphan_ms: asked.orphan_timeout.0,
                stuck_ms: asked.stuck_timeout.0,
                max_age_ms: asked.max_age.0,
                overdue_ms: asked.overdue.0,
            },
            scheduled: schedule("schedule", &asked.schedule)?,
            by_age: schedule("schedule_by_age", &asked.schedule_by_age)?,
            pressure: schedule("schedule_pressure", &asked.schedule_pressure)?,
            reconcile: schedule("schedule_reconcile", &asked.schedule_reconcile)?,
            batch: asked.batch.get(),
            item_ms: asked.item_timeout.0,
            threshold: self.threshold(asked.pressure)?,
            ..CleanupConfig::default()
        })
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is from 0.1 to 1")]
    fn threshold(&self, share: f64) -> Result<Threshold, SettingsError> {
        if (0.1..=1.0).contains(&share) {
            return Ok(Threshold((share * 1_000.0).round() as u32));
        }
        Err(self.refused("cleanup.pressure", format!("{share} is not allowed; allowed is from 0.1 to 1")))
    }
}
