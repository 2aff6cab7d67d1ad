//! `pinfold health`: health of the store, the provider and cleanup, and the firing alerts.

use std::process::ExitCode;

use pinfold_api::{ActiveAlert, Health, HealthPart, HealthState};

use crate::GlobalOptions;
use crate::backend::Backend;
use crate::colour::StatusColour;
use crate::exit;
use crate::json_output::{self, wire_name};
use crate::table::{escape_control, format_table};

pub(crate) async fn run(global: &GlobalOptions) -> anyhow::Result<ExitCode> {
    let backend = Backend::open(global).await?;
    let health = backend.health().await?;
    backend.close().await?;
    if global.json {
        json_output::print(&health)?;
    } else {
        anstream::print!("{}", format_health(&health));
    }
    // Firing alerts do not count: a script that waits for a server to start must not wait for an alert to end.
    let is_healthy = health.status == HealthState::Ok;
    Ok(if is_healthy { ExitCode::SUCCESS } else { ExitCode::from(exit::FAILED) })
}

/// Counts, firing alerts with what to do, and the overall status in the last line.
fn format_health(health: &Health) -> String {
    let mut text = format_table(&health_rows(health));
    match health.alerts.as_deref() {
        None => text += "\nfiring alerts are unknown\n",
        Some([]) => text += "\nno alert is firing\n",
        Some(firing) => {
            text += &format!("\n{}", format_table(&alert_rows(firing)));
            text += "acknowledge with `pinfold alert ack NAME`\n";
        }
    }
    let indicator = StatusColour::from(health.indicator).paint(&wire_name(&health.indicator));
    format!("{text}\nindicator: {indicator}, status: {}\n", wire_name(&health.status))
}

fn health_rows(health: &Health) -> Vec<Vec<String>> {
    let part = |name: &str, part: &HealthPart| {
        let message = part.message.as_deref().map(escape_control).unwrap_or_default();
        vec![name.to_owned(), wire_name(&part.status), message]
    };
    let row = |name: &str, value: Option<String>| {
        vec![name.to_owned(), value.unwrap_or_else(|| "unknown".to_owned())]
    };
    let count = |name: &str, count: Option<u64>| row(name, count.map(|count| count.to_string()));
    let left = |name: &str, mb: Option<u64>| row(name, mb.map(|mb| format!("{mb} MiB")));
    let stats = health.sandboxes.as_ref();
    let failures = health.failure_rate.map(|share| format!("{:.1} %", share * 100.0));
    vec![
        part("store", &health.store),
        part("provider", &health.provider),
        part("cleanup", &health.cleanup),
        count("active", stats.map(|stats| stats.active)),
        count("provisioning", stats.map(|stats| stats.provisioning)),
        count("terminating", stats.map(|stats| stats.terminating)),
        count("quarantined", stats.map(|stats| stats.quarantined)),
        count("stuck", health.stuck),
        count("orphaned", health.orphaned),
        row("failure rate", failures.or_else(|| Some("unknown, or no sandbox has ended".to_owned()))),
        left("memory left", health.memory_mb_left),
        left("disk left", health.disk_mb_left),
    ]
}

/// For an alert about one sandbox, `doctor` names the cause and the fix; for others, the runbook does.
fn alert_rows(firing: &[ActiveAlert]) -> Vec<Vec<String>> {
    let mut rows = vec![["SEVERITY", "ALERT", "ABOUT", "SINCE", "WHAT TO DO"].map(str::to_owned).to_vec()];
    rows.extend(firing.iter().map(|alert| {
        let sandbox = alert.subject.as_ref().map(|subject| escape_control(&subject.sandbox_id));
        let runbook = escape_control(&alert.runbook);
        let what_to_do = match &sandbox {
            Some(sandbox) => format!("pinfold doctor {sandbox}; {runbook}"),
            None => runbook,
        };
        vec![
            StatusColour::from(alert.severity).paint(&wire_name(&alert.severity)),
            escape_control(&alert.name),
            sandbox.unwrap_or_else(|| escape_control(&alert.title)),
            escape_control(&alert.since),
            what_to_do,
        ]
    }));
    rows
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;
    use pinfold_api::{AlertSeverity, AlertSubject, Indicator};

    use super::*;

    fn unknown() -> Health {
        let part = || HealthPart { status: HealthState::Unknown, message: Some("no answer".into()) };
        Health {
            indicator: Indicator::Unknown,
            status: HealthState::Unknown,
            store: part(),
            provider: part(),
            cleanup: part(),
            sandboxes: None,
            stuck: None,
            orphaned: None,
            failure_rate: None,
            nodes: None,
            memory_mb_left: None,
            disk_mb_left: None,
            alerts: None,
            at: "2026-01-01T00:00:00.000Z".into(),
        }
    }

    fn firing(severity: AlertSeverity, sandbox: Option<&str>) -> ActiveAlert {
        let of = |sandbox: &str| AlertSubject { sandbox_id: sandbox.into(), event: "stuck".into() };
        ActiveAlert {
            name: "some_alert".into(),
            title: "Some Alert".into(),
            severity,
            subject: sandbox.map(of),
            since: "12:00".into(),
            acknowledged: false,
            silenced: false,
            runbook: "docs/runbook.md#step".into(),
        }
    }

    fn lines(health: &Health) -> Vec<String> {
        let plain = strip_str(&format_health(health)).to_string();
        plain.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn firing_alerts_are_shown_with_advice_and_free_host_resources() {
        let alerts =
            vec![firing(AlertSeverity::Critical, None), firing(AlertSeverity::Warning, Some("sbx_1"))];
        let health = Health {
            indicator: Indicator::Critical,
            status: HealthState::Ok,
            stuck: Some(1),
            failure_rate: Some(0.125),
            memory_mb_left: Some(2_048),
            disk_mb_left: Some(512),
            alerts: Some(alerts),
            ..unknown()
        };

        let shown = lines(&health);

        for line in [
            "stuck 1",
            "failure rate 12.5 %",
            "memory left 2048 MiB",
            "disk left 512 MiB",
            "critical some_alert Some Alert 12:00 docs/runbook.md#step",
            "warning some_alert sbx_1 12:00 pinfold doctor sbx_1; docs/runbook.md#step",
        ] {
            assert!(shown.iter().any(|it| it == line), "{line}: {shown:#?}");
        }
        assert_eq!(shown.last().unwrap(), "indicator: critical, status: ok");
    }

    #[test]
    fn unknown_values_are_shown_as_unknown() {
        let shown = lines(&unknown());

        for line in ["active unknown", "stuck unknown", "memory left unknown", "firing alerts are unknown"] {
            assert!(shown.iter().any(|it| it == line), "{line}: {shown:#?}");
        }
        assert_eq!(shown.last().unwrap(), "indicator: unknown, status: unknown");
    }
}
