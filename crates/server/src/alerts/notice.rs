//! What happened to an alert, as its receivers read it.

use pinfold_alerts::{Alert, Figures, Happening, Severity, Subject, What, message};
use pinfold_api as api;

use super::AlertsConfig;
use crate::service::moment;

/// Without its delivery's id, which each receiver has its own of.
pub(crate) fn notice(happening: &Happening, figures: &Figures, config: &AlertsConfig) -> api::AlertNotice {
    let alert = happening.alert;
    let definition = alert.definition();
    let rule = config.rules.of(alert);
    api::AlertNotice {
        delivery_id: String::new(),
        name: alert.name().to_owned(),
        title: definition.title.to_owned(),
        severity: severity(definition.severity),
        event: event(&happening.what),
        message: message(happening, rule),
        value: happening.value,
        threshold: Some(rule.threshold),
        level: happening.level.number(),
        affects: definition.affects.iter().map(|objective| objective.name().to_owned()).collect(),
        runbook: runbook_of(alert, config),
        context: happening.subject.as_ref().map(context_of),
        impact: impact(figures),
        at: moment(happening.at),
        since: happening.since.map(moment),
    }
}

pub(crate) fn runbook_of(alert: Alert, config: &AlertsConfig) -> String {
    format!("{}#{}", config.runbook, alert.definition().step)
}

fn context_of(subject: &Subject) -> api::AlertContext {
    api::AlertContext { sandbox_id: subject.sandbox.clone(), event: subject.event.name().to_owned() }
}

pub(crate) fn impact(figures: &Figures) -> api::AlertImpact {
    api::AlertImpact {
        executions: figures.executions,
        failure_rate: figures.failure_rate,
        timeout_rate: figures.timeout_rate,
        inactivity_rate: figures.inactivity_rate,
    }
}

pub(crate) fn severity(severity: Severity) -> api::AlertSeverity {
    match severity {
        Severity::Info => api::AlertSeverity::Info,
        Severity::Warning => api::AlertSeverity::Warning,
        Severity::Critical => api::AlertSeverity::Critical,
    }
}

pub(crate) fn event(what: &What) -> api::AlertEvent {
    match what {
        What::Fired => api::AlertEvent::Fired,
        What::Repeated => api::AlertEvent::Repeated,
        What::Escalated => api::AlertEvent::Escalated,
        What::Resolved => api::AlertEvent::Resolved,
        What::Acknowledged { .. } => api::AlertEvent::Acknowledged,
        What::Silenced { .. } => api::AlertEvent::Silenced,
        What::Unsilenced { .. } => api::AlertEvent::Unsilenced,
    }
}
