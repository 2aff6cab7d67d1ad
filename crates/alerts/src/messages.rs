//! The texts of notifications.

use crate::definitions::Unit;
use crate::{Alert, AlertChange, ChangeKind, Rule};

/// The change in one line.
#[must_use]
pub fn message(change: &AlertChange, rule: Rule) -> String {
    let what = subject_of(change);
    let value_text = |value: f64| {
        format!(
            "{} (above {})",
            format_value(change.alert, value),
            format_value(change.alert, rule.threshold)
        )
    };
    // A value adds nothing where the alert names a single sandbox.
    let value_text = change.value.filter(|_| change.subject.is_none()).map(value_text);
    let value_text = value_text.map(|value_text| format!(": {value_text}")).unwrap_or_default();
    let minutes = change.since.map(|since| change.at.ms_since(since) / 60_000).unwrap_or_default();
    match &change.kind {
        ChangeKind::Fired => format!("{what}{value_text}"),
        ChangeKind::Repeated => format!("{what}{value_text}, for {minutes} min now"),
        ChangeKind::Escalated => {
            format!("{what}{value_text}, for {minutes} min now; not acknowledged")
        }
        ChangeKind::Resolved => format!("Resolved after {minutes} min: {what}"),
        ChangeKind::Acknowledged { by } => format!("{what}: acknowledged by {by}"),
        ChangeKind::Silenced { by, reason, .. } => format!("{what}: silenced by {by}: {reason}"),
        ChangeKind::Unsilenced { by } => format!("{what}: silence removed by {by}"),
    }
}

fn subject_of(change: &AlertChange) -> String {
    match &change.subject {
        Some(subject) => format!("Sandbox {}: {}", subject.event.name(), subject.sandbox),
        None => change.alert.definition().title.to_owned(),
    }
}

/// A value of this alert with its unit.
#[must_use]
pub fn format_value(alert: Alert, value: f64) -> String {
    match alert.definition().unit {
        Unit::Count => format!("{value:.0}"),
        Unit::Share => {
            let percent = format!("{:.1}", value * 100.0);
            format!("{} %", percent.trim_end_matches(".0"))
        }
        Unit::Periods => format!("{value:.1} periods"),
    }
}
