//! Builds the notification of an alert event.

use pinfold_alerts::{
    Alert, AlertChange, AlertInputs, AlertSubject, ChangeKind, DurationP95, Severity, message,
};
use pinfold_api as api;
use pinfold_lifecycle::Timestamp;

use super::AlertsConfig;

/// The notification without a delivery id; each delivery has its own.
pub(super) fn notice(
    alert_change: &AlertChange,
    inputs: &AlertInputs,
    config: &AlertsConfig,
) -> api::AlertNotice {
    let alert = alert_change.alert;
    let definition = alert.definition();
    let rule = config.rules.of(alert);
    api::AlertNotice {
        delivery_id: String::new(),
        name: alert.name().to_owned(),
        title: definition.title.to_owned(),
        severity: severity(definition.severity),
        event: event(&alert_change.kind),
        message: message(alert_change, rule),
        value: alert_change.value,
        threshold: Some(rule.threshold),
        level: alert_change.level.number(),
        affects: definition.affects.iter().map(|objective| objective.name().to_owned()).collect(),
        runbook: runbook_of(alert, config),
        context: alert_change.subject.as_ref().map(context_of),
        impact: impact(inputs),
        at: rfc3339(alert_change.at),
        since: alert_change.since.map(rfc3339),
    }
}

/// The link to an alert's step in the runbook.
#[must_use]
pub fn runbook_of(alert: Alert, config: &AlertsConfig) -> String {
    format!("{}#{}", config.runbook, alert.definition().step)
}

fn rfc3339(at: Timestamp) -> String {
    api::rfc3339(at.0)
}

fn context_of(subject: &AlertSubject) -> api::AlertContext {
    api::AlertContext { sandbox_id: subject.sandbox.clone(), event: subject.event.name().to_owned() }
}

/// The values that say how users are affected, as the API shows them.
#[must_use]
pub fn impact(inputs: &AlertInputs) -> api::AlertImpact {
    api::AlertImpact {
        executions: inputs.executions,
        failure_rate: inputs.failure_rate,
        timeout_rate: inputs.timeout_rate,
        inactivity_rate: inputs.inactivity_rate,
        exec_start: pace(inputs.exec_start),
        execution: pace(inputs.execution),
    }
}

fn pace(pace: DurationP95) -> api::AlertLatency {
    api::AlertLatency { lately_p95_seconds: pace.recent, usual_p95_seconds: pace.overall }
}

/// The effect on users, in one line.
pub(super) fn impact_text(impact: &api::AlertImpact) -> String {
    let unknown = || "unknown".to_owned();
    let share = |rate: Option<f64>| rate.map_or_else(unknown, |rate| format!("{:.1} %", rate * 100.0));
    let seconds = |took: Option<f64>| took.map_or_else(unknown, |took| format!("{took:.3} s"));
    let pace = |pace: api::AlertLatency| {
        format!("{} (usually {})", seconds(pace.lately_p95_seconds), seconds(pace.usual_p95_seconds))
    };
    format!(
        "Executions that ended lately: {}, failed {}, timed out {}; 95 of 100 begin within {} and take up to {}",
        impact.executions.map_or_else(unknown, |count| count.to_string()),
        share(impact.failure_rate),
        share(impact.timeout_rate),
        pace(impact.exec_start),
        pace(impact.execution),
    )
}

/// A severity as the API shows it.
#[must_use]
pub fn severity(severity: Severity) -> api::AlertSeverity {
    match severity {
        Severity::Info => api::AlertSeverity::Info,
        Severity::Warning => api::AlertSeverity::Warning,
        Severity::Critical => api::AlertSeverity::Critical,
    }
}

/// The kind of an alert change as the API shows it.
#[must_use]
pub fn event(what: &ChangeKind) -> api::AlertEvent {
    match what {
        ChangeKind::Fired => api::AlertEvent::Fired,
        ChangeKind::Repeated => api::AlertEvent::Repeated,
        ChangeKind::Escalated => api::AlertEvent::Escalated,
        ChangeKind::Resolved => api::AlertEvent::Resolved,
        ChangeKind::Acknowledged { .. } => api::AlertEvent::Acknowledged,
        ChangeKind::Silenced { .. } => api::AlertEvent::Silenced,
        ChangeKind::Unsilenced { .. } => api::AlertEvent::Unsilenced,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_impact_text_shows_usual_and_unknown_values() {
        let inputs = AlertInputs {
            executions: Some(20),
            failure_rate: Some(0.125),
            exec_start: DurationP95 { recent: Some(2.5), overall: Some(0.04) },
            ..AlertInputs::default()
        };

        let text = impact_text(&impact(&inputs));

        assert_eq!(
            text,
            "Executions that ended lately: 20, failed 12.5 %, timed out unknown; 95 of 100 begin within 2.500 s \
             (usually 0.040 s) and take up to unknown (usually unknown)"
        );
    }
}
