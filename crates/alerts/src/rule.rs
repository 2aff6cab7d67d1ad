//! When alerts fire, and how often somebody is called: what is built in, and what was decided otherwise.

use std::collections::BTreeMap;

use crate::Alert;

/// When one alert fires.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// Above this.
    pub threshold: f64,
    /// For so long, without a moment below.
    pub sustained_ms: u64,
    /// A rate means nothing before so many were counted.
    pub minimum: u64,
}

/// The rules of all alerts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rules {
    otherwise: BTreeMap<Alert, Rule>,
}

impl Rules {
    pub fn put(&mut self, alert: Alert, rule: Rule) {
        self.otherwise.insert(alert, rule);
    }

    #[must_use]
    pub fn of(&self, alert: Alert) -> Rule {
        self.otherwise.get(&alert).copied().unwrap_or_else(|| alert.definition().rule)
    }
}

/// How often somebody is called about the same thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Habits {
    /// The same alert is told once in this time.
    pub cooldown_ms: u64,
    /// A critical alert that nobody acknowledges goes one level further each time this has passed.
    pub escalate_after_ms: u64,
    /// Two looks that are further apart prove nothing about the time between them.
    pub gap_ms: u64,
}

impl Default for Habits {
    fn default() -> Self {
        Self { cooldown_ms: 3_600_000, escalate_after_ms: 1_800_000, gap_ms: 120_000 }
    }
}
