//! Rules of alerts and the notification policy, with their defaults.

use std::collections::BTreeMap;

use crate::Alert;

/// When one alert fires.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// The value must be above this.
    pub threshold: f64,
    /// The condition must hold for this long without interruption.
    pub sustained_ms: u64,
    /// A rate is evaluated only if at least this many events were counted.
    pub minimum: u64,
}

/// The rules of all alerts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rules {
    otherwise: BTreeMap<Alert, Rule>,
}

impl Rules {
    pub fn set(&mut self, alert: Alert, rule: Rule) {
        self.otherwise.insert(alert, rule);
    }

    #[must_use]
    pub fn of(&self, alert: Alert) -> Rule {
        self.otherwise.get(&alert).copied().unwrap_or_else(|| alert.definition().rule)
    }
}

/// How often notifications are repeated and escalated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotificationPolicy {
    /// Shortest time between two notifications of the same alert.
    pub cooldown_ms: u64,
    /// A critical alert that is not acknowledged is escalated by one level each time this has passed.
    pub escalate_after_ms: u64,
    /// If two evaluations are further apart than this, the condition is not assumed to hold in between.
    pub gap_ms: u64,
}

impl Default for NotificationPolicy {
    fn default() -> Self {
        Self { cooldown_ms: 3_600_000, escalate_after_ms: 1_800_000, gap_ms: 120_000 }
    }
}
