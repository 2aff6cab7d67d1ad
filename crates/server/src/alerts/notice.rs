//! What happened to an alert, as its receivers read it.

use pinfold_alerts::{Alert, Figures, Happening, Pace, Severity, Subject, What, message};
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
        exec_start: pace(figures.exec_start),
        execution: pace(figures.execution),
    }
}

fn pace(pace: Pace) -> api::AlertPace {
    api::AlertPace { lately_p95_seconds: pace.lately, usual_p95_seconds: pace.usually }
}

/// What users notice, in one line.
pub(super) fn impact_in_words(impact: &api::AlertImpact) -> String {
    let unknown = || "unknown".to_owned();
    let share = |rate: Option<f64>| rate.map_or_else(unknown, |rate| format!("{:.1} %", rate * 100.0));
    let seconds = |took: Option<f64>| took.map_or_else(unknown, |took| format!("{took:.3} s"));
    let pace = |pace: api::AlertPace| {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_users_notice_is_told_with_what_is_usual_and_what_is_not_known_as_such() {
        let figures = Figures {
            executions: Some(20),
            failure_rate: Some(0.125),
            exec_start: Pace { lately: Some(2.5), usually: Some(0.04) },
            ..Figures::default()
        };

        let told = impact_in_words(&impact(&figures));

        assert_eq!(
            told,
            "Executions that ended lately: 20, failed 12.5 %, timed out unknown; 95 of 100 begin within 2.500 s \
             (usually 0.040 s) and take up to unknown (usually unknown)"
        );
    }
}
