//! Whether the parts that everything rests on answer, and whether somebody has to see to something. What cannot be found
//! out is unknown, never fine.

use std::fmt::Display;
use std::time::Duration;

use pinfold_alerts::{Alert, Figures, Reading, Rules, reading};
use pinfold_api::{ActiveAlert, AlertSeverity, Health, HealthPart, HealthState, Indicator};
use pinfold_provider::Provider;
use pinfold_store::Store;
use tokio::time::timeout;

use super::Service;
use super::words::moment;
use crate::alerts::severity;

/// How long each part has to answer.
const ANSWER: Duration = Duration::from_secs(5);

impl Service {
    /// Always answers.
    pub async fn health(&self) -> Health {
        let (stats, nodes, capacity, troubles, alerts, figures) = tokio::join!(
            timeout(ANSWER, self.stats()),
            timeout(ANSWER, self.host.store.nodes()),
            timeout(ANSWER, self.host.provider.capacity()),
            timeout(ANSWER, self.host.cleaner.troubles()),
            timeout(ANSWER, self.active_alerts()),
            self.figures_of_alerts(),
        );
        let store = match &stats {
            Ok(Ok(_)) => fine(),
            Ok(Err(failure)) => bad(HealthState::Failing, &failure.detail.message),
            Err(_) => bad(HealthState::Unknown, "it does not answer"),
        };
        let provider = match &capacity {
            Ok(Ok(_)) => fine(),
            Ok(Err(error)) => bad(HealthState::Failing, error),
            Err(_) => bad(HealthState::Unknown, "it does not answer"),
        };
        let cleanup = match &troubles {
            Ok(Ok(troubles)) if troubles.is_empty() => fine(),
            Ok(Ok(troubles)) => bad(HealthState::Failing, troubles.join("; ")),
            Ok(Err(error)) => bad(HealthState::Unknown, error),
            Err(_) => bad(HealthState::Unknown, "the store does not answer"),
        };
        let capacity = capacity.ok().and_then(Result::ok);
        let alerts = alerts.ok().and_then(Result::ok);
        let of_parts = part_indicator(&store, Indicator::Critical)
            .max(part_indicator(&provider, Indicator::Critical))
            .max(part_indicator(&cleanup, Indicator::Degraded));
        Health {
            indicator: of_parts
                .max(firing_indicator(alerts.as_deref()))
                .max(figures_indicator(&figures, &self.rules.alerts.rules)),
            status: store.status.max(provider.status).max(cleanup.status),
            store,
            provider,
            cleanup,
            sandboxes: stats.ok().and_then(Result::ok),
            stuck: figures.stuck,
            orphaned: figures.orphaned,
            failure_rate: figures.failure_rate.filter(|_| figures.outcomes > Some(0)),
            nodes: nodes.ok().and_then(Result::ok).map(|nodes| nodes.len() as u64),
            memory_mb_left: capacity.as_ref().and_then(|left| left.memory_mb_left),
            disk_mb_left: capacity.as_ref().and_then(|left| left.disk_mb_left),
            alerts,
            at: moment(self.now()),
        }
    }

    /// As alerts saw them last. What was seen too long ago says nothing about now.
    async fn figures_of_alerts(&self) -> Figures {
        let seen = timeout(ANSWER, self.seen_lately()).await.ok();
        let gap_ms = self.rules.alerts.habits.gap_ms;
        let seen = seen.filter(|seen| self.now().ms_since(seen.at) <= gap_ms);
        seen.map(|seen| seen.figures).unwrap_or_default()
    }
}

fn fine() -> HealthPart {
    HealthPart { status: HealthState::Ok, message: None }
}

fn bad(status: HealthState, why: impl Display) -> HealthPart {
    HealthPart { status, message: Some(why.to_string()) }
}

fn part_indicator(part: &HealthPart, if_it_fails: Indicator) -> Indicator {
    match part.status {
        HealthState::Ok => Indicator::Healthy,
        HealthState::Unknown => Indicator::Unknown,
        HealthState::Failing => if_it_fails,
    }
}

/// That somebody sees to it, or wants to hear nothing of it, does not end it.
fn firing_indicator(alerts: Option<&[ActiveAlert]>) -> Indicator {
    match alerts {
        None => Indicator::Unknown,
        Some(alerts) => {
            alerts.iter().map(|alert| as_indicator(alert.severity)).max().unwrap_or(Indicator::Healthy)
        }
    }
}

/// What will fire as soon as somebody looks counts as if it did: without a server, nobody does.
fn figures_indicator(figures: &Figures, rules: &Rules) -> Indicator {
    let of = |alert: &Alert| {
        let rule = rules.of(*alert);
        match reading(*alert, figures, rule) {
            Reading::Unknown => Indicator::Unknown,
            Reading::Bad { .. } if rule.sustained_ms == 0 => {
                as_indicator(severity(alert.definition().severity))
            }
            Reading::Bad { .. } | Reading::Fine { .. } => Indicator::Healthy,
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
    use pinfold_alerts::Pace;

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

    /// All of them known, and none of them bad.
    fn quiet() -> Figures {
        Figures {
            active: Some(1),
            stuck: Some(0),
            orphaned: Some(0),
            executions: Some(100),
            timeout_rate: Some(0.0),
            inactivity_rate: Some(0.0),
            outcomes: Some(100),
            failure_rate: Some(0.0),
            exec_start: Pace::default(),
            execution: Pace::default(),
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
            events: Some(Vec::new()),
        }
    }

    fn read(figures: &Figures) -> Indicator {
        figures_indicator(figures, &Rules::default())
    }

    #[test]
    fn nothing_is_healthy_while_something_fires_whoever_sees_to_it() {
        let all = [firing(AlertSeverity::Warning), firing(AlertSeverity::Critical)];

        assert_eq!(firing_indicator(Some(&all)), Indicator::Critical);
        assert_eq!(firing_indicator(Some(&all[..1])), Indicator::Degraded);
        assert_eq!(firing_indicator(Some(&[firing(AlertSeverity::Info)])), Indicator::Healthy);
        assert_eq!(firing_indicator(Some(&[])), Indicator::Healthy);
    }

    #[test]
    fn what_nobody_could_look_at_is_unknown_and_hides_nothing_that_is_worse() {
        let unseen = Figures { quota_used: None, ..quiet() };

        assert_eq!(
            (firing_indicator(None), read(&Figures::default())),
            (Indicator::Unknown, Indicator::Unknown)
        );
        assert_eq!(read(&unseen), Indicator::Unknown);
        assert_eq!(read(&Figures { orphaned: Some(1), ..unseen.clone() }), Indicator::Degraded);
        assert_eq!(read(&Figures { stuck: Some(1), ..unseen }), Indicator::Critical);
    }

    #[test]
    fn a_figure_counts_before_its_alert_fires_unless_it_has_to_hold_for_a_while() {
        let crowded = Figures { active: Some(21), ..quiet() };

        assert_eq!((read(&quiet()), read(&crowded)), (Indicator::Healthy, Indicator::Healthy));
        assert_eq!(read(&Figures { failure_rate: Some(0.3), ..quiet() }), Indicator::Critical);
        assert_eq!(
            read(&Figures { outcomes: Some(1), failure_rate: Some(1.0), ..quiet() }),
            Indicator::Healthy
        );
    }

    #[test]
    fn a_part_that_fails_is_as_bad_as_what_rests_on_it() {
        let of = |status| part_indicator(&bad(status, "no answer"), Indicator::Critical);

        assert_eq!(
            (of(HealthState::Failing), of(HealthState::Unknown)),
            (Indicator::Critical, Indicator::Unknown)
        );
        assert_eq!(part_indicator(&fine(), Indicator::Critical), Indicator::Healthy);
    }
}
