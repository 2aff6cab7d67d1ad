//! What the figures say about one alert.

use crate::{Alert, Figures, Rule};

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reading {
    /// Nobody could tell.
    Unknown,
    /// The condition does not hold. Without a value too little was counted to have one.
    Fine { value: Option<f64> },
    /// The condition holds.
    Bad { value: f64 },
}

impl Reading {
    #[must_use]
    pub fn value(self) -> Option<f64> {
        match self {
            Self::Unknown => None,
            Self::Fine { value } => value,
            Self::Bad { value } => Some(value),
        }
    }
}

/// Of an alert about single sandboxes: how many there are.
#[must_use]
pub fn reading(alert: Alert, figures: &Figures, rule: Rule) -> Reading {
    let counted = |figure: Option<u64>| figure.map(as_figure);
    let (value, of) = match alert {
        Alert::SandboxTimeoutHigh => (figures.timeout_rate, Some(figures.executions)),
        Alert::SandboxFailureRateCritical | Alert::SandboxFailureRateHigh => {
            (figures.failure_rate, Some(figures.outcomes))
        }
        Alert::InactivityTimeoutRateHigh => (figures.inactivity_rate, Some(figures.executions)),
        Alert::StopFailureRateHigh => (figures.stop_failure_rate, Some(figures.stops)),
        Alert::ProvisioningFailing => (figures.start_failure_rate, Some(figures.starts)),
        Alert::SandboxLeakDetected | Alert::SandboxActiveHigh | Alert::ActiveHighSustained => {
            (counted(figures.active), None)
        }
        Alert::SandboxStuck => (counted(figures.stuck), None),
        Alert::SandboxOrphaned | Alert::SandboxOrphanDetected => (counted(figures.orphaned), None),
        Alert::SandboxEvent => (counted(figures.events.as_ref().map(|events| events.len() as u64)), None),
        Alert::StatusDisagreesWithProbe => (counted(figures.disagreements), None),
        Alert::ResourcePressure => (figures.resources_used, None),
        Alert::QuotaExceeded => (figures.quota_used, None),
        Alert::CleanupFailed | Alert::CleanupFailing => (counted(figures.cleanup_failures_in_a_row), None),
        Alert::CleanupLate => (figures.cleanup_periods_late, None),
        Alert::CleanupFoundTwice => (counted(figures.cleanup_found_twice), None),
        Alert::StateCorrupted => (counted(figures.corrupted), None),
    };
    match of {
        Some(None) => Reading::Unknown,
        Some(Some(counted)) if counted < rule.minimum => Reading::Fine { value: None },
        Some(Some(_)) | None => against(value, rule),
    }
}

fn against(value: Option<f64>, rule: Rule) -> Reading {
    match value {
        Some(value) if value.is_nan() => Reading::Unknown,
        Some(value) if value > rule.threshold => Reading::Bad { value },
        Some(value) => Reading::Fine { value: Some(value) },
        None => Reading::Unknown,
    }
}

/// Nothing that is counted here comes near the limit of what such a number can tell apart.
#[expect(clippy::cast_precision_loss, reason = "counts of sandboxes")]
fn as_figure(count: u64) -> f64 {
    count as f64
}
