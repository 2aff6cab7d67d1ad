//! Evaluates the condition of one alert.

use crate::{Alert, AlertInputs, Rule};

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Evaluation {
    /// The value is not known.
    Unknown,
    /// The condition does not hold. Without a value, too few events were counted.
    Fine { value: Option<f64> },
    /// The condition holds.
    Bad { value: f64 },
}

impl Evaluation {
    #[must_use]
    pub fn value(self) -> Option<f64> {
        match self {
            Self::Unknown => None,
            Self::Fine { value } => value,
            Self::Bad { value } => Some(value),
        }
    }
}

/// Evaluates an alert. For the alert about single sandboxes the value is their number.
#[must_use]
pub fn evaluate(alert: Alert, inputs: &AlertInputs, rule: Rule) -> Evaluation {
    let count = |count: Option<u64>| count.map(as_value);
    let (value, of) = match alert {
        Alert::SandboxTimeoutHigh => (inputs.timeout_rate, Some(inputs.executions)),
        Alert::SandboxFailureRateCritical | Alert::SandboxFailureRateHigh => {
            (inputs.failure_rate, Some(inputs.outcomes))
        }
        Alert::InactivityTimeoutRateHigh => (inputs.inactivity_rate, Some(inputs.executions)),
        Alert::StopFailureRateHigh => (inputs.stop_failure_rate, Some(inputs.stops)),
        Alert::ProvisioningFailing => (inputs.start_failure_rate, Some(inputs.starts)),
        Alert::SandboxLeakDetected | Alert::SandboxActiveHigh | Alert::ActiveHighSustained => {
            (count(inputs.active), None)
        }
        Alert::SandboxStuck => (count(inputs.stuck), None),
        Alert::SandboxOrphaned | Alert::SandboxOrphanDetected => (count(inputs.orphaned), None),
        Alert::SandboxEvent => (count(inputs.events.as_ref().map(|events| events.len() as u64)), None),
        Alert::StatusDisagreesWithProbe => (count(inputs.disagreements), None),
        Alert::ResourcePressure => (inputs.resources_used, None),
        Alert::QuotaExceeded => (inputs.quota_used, None),
        Alert::CleanupFailed | Alert::CleanupFailing => (count(inputs.cleanup_failures_in_a_row), None),
        Alert::CleanupLate => (inputs.cleanup_periods_late, None),
        Alert::CleanupFoundTwice => (count(inputs.cleanup_found_twice), None),
        Alert::StateCorrupted => (count(inputs.corrupted), None),
        Alert::WrongTokens => (count(inputs.wrong_tokens), None),
    };
    match of {
        Some(None) => Evaluation::Unknown,
        Some(Some(count)) if count < rule.minimum => Evaluation::Fine { value: None },
        Some(Some(_)) | None => against(value, rule),
    }
}

fn against(value: Option<f64>, rule: Rule) -> Evaluation {
    match value {
        Some(value) if value.is_nan() => Evaluation::Unknown,
        Some(value) if value > rule.threshold => Evaluation::Bad { value },
        Some(value) => Evaluation::Fine { value: Some(value) },
        None => Evaluation::Unknown,
    }
}

/// Counts here are far below the precision of a float.
#[expect(clippy::cast_precision_loss, reason = "counts of sandboxes")]
fn as_value(count: u64) -> f64 {
    count as f64
}
