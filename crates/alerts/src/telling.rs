//! Alerts in the words that people are called with.

use crate::list::Unit;
use crate::{Alert, Happening, Rule, What};

/// What happened, in one line.
#[must_use]
pub fn message(happening: &Happening, rule: Rule) -> String {
    let what = subject_of(happening);
    let figure = |value: f64| {
        format!("{} (above {})", shown(happening.alert, value), shown(happening.alert, rule.threshold))
    };
    // What one sandbox did has no figure that would say more.
    let figure = happening.value.filter(|_| happening.subject.is_none()).map(figure);
    let figure = figure.map(|figure| format!(": {figure}")).unwrap_or_default();
    let minutes = happening.since.map(|since| happening.at.ms_since(since) / 60_000).unwrap_or_default();
    match &happening.what {
        What::Fired => format!("{what}{figure}"),
        What::Repeated => format!("{what}{figure}, for {minutes} min now"),
        What::Escalated => {
            format!("{what}{figure}, for {minutes} min now; nobody has acknowledged it")
        }
        What::Resolved => format!("Resolved after {minutes} min: {what}"),
        What::Acknowledged { by } => format!("{what}: acknowledged by {by}"),
        What::Silenced { by, reason, .. } => format!("{what}: silenced by {by}: {reason}"),
        What::Unsilenced { by } => format!("{what}: no longer silenced, says {by}"),
    }
}

fn subject_of(happening: &Happening) -> String {
    match &happening.subject {
        Some(subject) => format!("Sandbox {}: {}", subject.event.name(), subject.sandbox),
        None => happening.alert.definition().title.to_owned(),
    }
}

/// A figure of this alert, as people read it.
#[must_use]
pub fn shown(alert: Alert, value: f64) -> String {
    match alert.definition().unit {
        Unit::Count => format!("{value:.0}"),
        Unit::Share => {
            let percent = format!("{:.1}", value * 100.0);
            format!("{} %", percent.trim_end_matches(".0"))
        }
        Unit::Periods => format!("{value:.1} periods"),
    }
}
