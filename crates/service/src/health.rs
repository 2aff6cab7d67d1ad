//! The health endpoint: state of the store, the provider and cleanup, and firing alerts. What cannot be determined is
//! unknown, never healthy.

use std::fmt::Display;
use std::time::Duration;

use pinfold_alerts::{Alert, AlertInputs, Evaluation, Rules, evaluate};
use pinfold_api::{ActiveAlert, AlertSeverity, Health, HealthPart, HealthState, Indicator};
use tokio::time::timeout;

use super::Service;
use super::convert::rfc3339;
use pinfold_notify::severity;

/// Time limit per part.
const PART_TIMEOUT: Duration = Duration::from_secs(5);

impl Service {
    /// Collects the health of all parts. Never fails.
    pub async fn health(&self) -> Health {
        let (stats, nodes, capacity, troubles, alerts, inputs) = tokio::join!(
            timeout(PART_TIMEOUT, self.stats()),
            timeout(PART_TIMEOUT, self.host.store.nodes()),
            timeout(PART_TIMEOUT, self.host.provider.capacity()),
            timeout(PART_TIMEOUT, self.host.cleaner.schedule_problems()),
            timeout(PART_TIMEOUT, self.active_alerts()),
            self.alert_inputs(),
        );
        let store = match &stats {
            Ok(Ok(_)) => fine(),
            Ok(Err(failure)) => bad(HealthState::Failing, &failure.detail.message),
            Err(_) => bad(HealthState::Unknown, "no answer"),
        };
        let provider = match &capacity {
            Ok(Ok(_)) => fine(),
            Ok(Err(error)) => bad(HealthState::Failing, error),
            Err(_) => bad(HealthState::Unknown, "no answer"),
        };
        let cleanup = match &troubles {
            Ok(Ok(troubles)) if troubles.is_empty() => fine(),
            Ok(Ok(troubles)) => bad(HealthState::Failing, troubles.join("; ")),
            Ok(Err(error)) => bad(HealthState::Unknown, error),
            Err(_) => bad(HealthState::Unknown, "no answer from the store"),
        };
        let capacity = capacity.ok().and_then(Result::ok);
        let alerts = alerts.ok().and_then(Result::ok);
        let of_parts = part_indicator(&store, Indicator::Critical)
            .max(part_indicator(&provider, Indicator::Critical))
            .max(part_indicator(&cleanup, Indicator::Degraded));
        Health {
            indicator: of_parts
                .max(firing_indicator(alerts.as_deref()))
                .max(inputs_indicator(&inputs, &self.config.alerts.rules)),
            status: store.status.max(provider.status).max(cleanup.status),
            store,
            provider,
            cleanup,
            sandboxes: stats.ok().and_then(Result::ok),
            stuck: inputs.stuck,
            orphaned: inputs.orphaned,
            failure_rate: inputs.failure_rate.filter(|_| inputs.outcomes > Some(0)),
            nodes: nodes.ok().and_then(Result::ok).map(|nodes| nodes.len() as u64),
            memory_mb_left: capacity.as_ref().and_then(|left| left.memory_mb_left),
            disk_mb_left: capacity.as_ref().and_then(|left| left.disk_mb_left),
            alerts,
            at: rfc3339(self.now()),
        }
    }

    /// The values of the last alert evaluation, unless they are too old.
    async fn alert_inputs(&self) -> AlertInputs {
        let seen = timeout(PART_TIMEOUT, self.latest_alert_snapshot()).await.ok();
        let gap_ms = self.config.alerts.notification_policy.gap_ms;
        let seen = seen.filter(|seen| self.now().ms_since(seen.at) <= gap_ms);
        seen.map(|seen| seen.inputs).unwrap_or_default()
    }
}

fn fine() -> HealthPart {
    HealthPart { status: HealthState::Ok, message: None }
}

fn bad(status: HealthState, why: impl Display) -> HealthPart {
    HealthPart { status, message: Some(why.to_string()) }
}

fn part_indicator(part: &HealthPart, when_failing: Indicator) -> Indicator {
    match part.status {
        HealthState::Ok => Indicator::Healthy,
        HealthState::Unknown => Indicator::Unknown,
        HealthState::Failing => when_failing,
    }
}

/// An acknowledged or silenced alert still fires.
fn firing_indicator(alerts: Option<&[ActiveAlert]>) -> Indicator {
    match alerts {
        None => Indicator::Unknown,
        Some(alerts) => {
            alerts.iter().map(|alert| as_indicator(alert.severity)).max().unwrap_or(Indicator::Healthy)
        }
    }
}

/// A value that would fire at the next evaluation counts as firing: without a server there is no evaluation loop.
fn inputs_indicator(inputs: &AlertInputs, rules: &Rules) -> Indicator {
    let of = |alert: &Alert| {
        let rule = rules.of(*alert);
        match evaluate(*alert, inputs, rule) {
            Evaluation::Unknown => Indicator::Unknown,
            Evaluation::Bad { .. } if rule.sustained_ms == 0 => {
                as_indicator(severity(alert.definition().severity))
            }
            Evaluation::Bad { .. } | Evaluation::Fine { .. } => Indicator::Healthy,
        }
    };
    Alert::ALL.iter().map(of).max().unwrap_or(Indicator::Healthy)
}

fn as_indicator(severity: AlertSeverity) -> Indicator {
    match severity {
        AlertSeverity::Info => Indicator::Healthy,
        AlertSeverity::Warning => Indicator::Degraded,
        AlertSeverity::Critical => Indicator::Critical,
    }
}

#[cfg(test)]
mod tests {
    use pinfold_alerts::DurationP95;

    use super::*;

    fn firing(severity: AlertSeverity) -> ActiveAlert {
        ActiveAlert {
            name: "sandbox_stuck".into(),
            title: "Stuck Sandboxes".into(),
            severity,
            subject: None,
            since: "2026-01-01T00:00:00.000Z".into(),
            acknowledged: true,
            silenced: true,
            runbook: "docs/runbook.md".into(),
        }
    }

    /// All values known and below their thresholds.
    fn quiet() -> AlertInputs {
        AlertInputs {
            active: Some(1),
            stuck: Some(0),
            orphaned: Some(0),
            executions: Some(100),
            timeout_rate: Some(0.0),
            inactivity_rate: Some(0.0),
            outcomes: Some(100),
            failure_rate: Some(0.0),
            exec_start: DurationP95::default(),
            execution: DurationP95::default(),
            stops: Some(100),
            stop_failure_rate: Some(0.0),
            starts: Some(100),
            start_failure_rate: Some(0.0),
            disagreements: Some(0),
            corrupted: Some(0),
            resources_used: Some(0.1),
            quota_used: Some(0.1),
            cleanup_failures_in_a_row: Some(0),
            cleanup_periods_late: Some(0.0),
            cleanup_found_twice: Some(0),
            wrong_tokens: Some(0),
            events: Some(Vec::new()),
        }
    }

    fn read(inputs: &AlertInputs) -> Indicator {
        inputs_indicator(inputs, &Rules::default())
    }

    #[test]
    fn a_firing_alert_is_never_healthy_even_when_acknowledged() {
        let all = [firing(AlertSeverity::Warning), firing(AlertSeverity::Critical)];

        assert_eq!(firing_indicator(Some(&all)), Indicator::Critical);
        assert_eq!(firing_indicator(Some(&all[..1])), Indicator::Degraded);
        assert_eq!(firing_indicator(Some(&[firing(AlertSeverity::Info)])), Indicator::Healthy);
        assert_eq!(firing_indicator(Some(&[])), Indicator::Healthy);
    }

    #[test]
    fn an_unknown_value_is_unknown_and_hides_no_worse_value() {
        let unseen = AlertInputs { quota_used: None, ..quiet() };

        assert_eq!(
            (firing_indicator(None), read(&AlertInputs::default())),
            (Indicator::Unknown, Indicator::Unknown)
        );
        assert_eq!(read(&unseen), Indicator::Unknown);
        assert_eq!(read(&AlertInputs { orphaned: Some(1), ..unseen.clone() }), Indicator::Degraded);
        assert_eq!(read(&AlertInputs { stuck: Some(1), ..unseen }), Indicator::Critical);
    }

    #[test]
    fn a_bad_value_counts_at_once_unless_it_must_be_sustained() {
        let crowded = AlertInputs { active: Some(21), ..quiet() };

        assert_eq!((read(&quiet()), read(&crowded)), (Indicator::Healthy, Indicator::Healthy));
        assert_eq!(read(&AlertInputs { failure_rate: Some(0.3), ..quiet() }), Indicator::Critical);
        assert_eq!(
            read(&AlertInputs { outcomes: Some(1), failure_rate: Some(1.0), ..quiet() }),
            Indicator::Healthy
        );
    }

    #[test]
    fn a_failing_part_counts_with_its_own_severity() {
        let of = |status| part_indicator(&bad(status, "no answer"), Indicator::Critical);

        assert_eq!(
            (of(HealthState::Failing), of(HealthState::Unknown)),
            (Indicator::Critical, Indicator::Unknown)
        );
        assert_eq!(part_indicator(&fine(), Indicator::Critical), Indicator::Healthy);
    }
}
