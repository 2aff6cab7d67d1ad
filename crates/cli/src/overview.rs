//! `pinfold stats` and `pinfold health`: what all sandboxes come to, and whether what they need works.

use std::process::ExitCode;
use std::time::Duration;

use pinfold_api::{ActiveAlert, Health, HealthPart, HealthState};
use serde::Serialize;
use serde_json::Value;

use crate::Place;
use crate::colour::Mood;
use crate::documents::{self, word};
use crate::exit;
use crate::find::find;
use crate::plane::Plane;
use crate::quantities::milliseconds;
use crate::table::{harmless, lay_out};

#[derive(clap::Args)]
pub(crate) struct StatsOptions {
    /// What one sandbox uses instead: its id, a beginning of it that is no other's, or its name
    sandbox: Option<String>,
    /// Rates, latencies and what each type of agent came to instead
    #[arg(long, conflicts_with = "sandbox")]
    metrics: bool,
    /// How far back these go, from a minute to a week: seconds, or 90s, 5m, 1h, 7d
    #[arg(long, value_name = "TIME", value_parser = milliseconds, default_value = "1h", requires = "metrics")]
    window: u64,
}

pub(crate) async fn stats(place: &Place, options: &StatsOptions) -> anyhow::Result<ExitCode> {
    let plane = Plane::open(place).await?;
    match &options.sandbox {
        Some(given) => {
            let id = find(&plane, given).await?;
            show(place, &plane.resources(&id).await?)?;
        }
        None if options.metrics => {
            show(place, &plane.metrics(Duration::from_millis(options.window)).await?)?;
        }
        None => show(place, &plane.stats().await?)?,
    }
    plane.close().await?;
    Ok(ExitCode::SUCCESS)
}

/// Each figure by its name, as far as it is known.
fn show(place: &Place, figures: &impl Serialize) -> anyhow::Result<()> {
    if place.json {
        return documents::print(figures);
    }
    anstream::print!("{}", lay_out(&rows("", &serde_json::to_value(figures)?)));
    Ok(())
}

fn rows(name: &str, figure: &Value) -> Vec<Vec<String>> {
    let row = |told: String| vec![vec![name.trim().replace('_', " "), told]];
    match figure {
        Value::Null => Vec::new(),
        Value::Object(figures) => {
            figures.iter().flat_map(|(part, figure)| rows(&format!("{name} {part}"), figure)).collect()
        }
        Value::String(text) => row(harmless(text)),
        other => row(other.to_string()),
    }
}

pub(crate) async fn health(place: &Place) -> anyhow::Result<ExitCode> {
    let plane = Plane::open(place).await?;
    let health = plane.health().await?;
    plane.close().await?;
    if place.json {
        documents::print(&health)?;
    } else {
        anstream::print!("{}", told(&health));
    }
    // By what works, not by what fires: who waits for a server to come up must not wait for an alert to end.
    let is_well = health.status == HealthState::Ok;
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::from(exit::FAILED) })
}

/// The figures, what fires and what to do about it, and in the last line what it comes to.
fn told(health: &Health) -> String {
    let mut text = lay_out(&figures(health));
    match health.alerts.as_deref() {
        None => text += "\nnobody can tell which alerts fire\n",
        Some([]) => text += "\nno alert fires\n",
        Some(firing) => {
            text += &format!("\n{}", lay_out(&alert_rows(firing)));
            text += "`pinfold alert ack NAME` says that you see to it\n";
        }
    }
    let indicator = Mood::from(health.indicator).paint(&word(&health.indicator));
    format!("{text}\nindicator: {indicator}, status: {}\n", word(&health.status))
}

fn figures(health: &Health) -> Vec<Vec<String>> {
    let part = |name: &str, part: &HealthPart| {
        let message = part.message.as_deref().map(harmless).unwrap_or_default();
        vec![name.to_owned(), word(&part.status), message]
    };
    let row = |name: &str, told: Option<String>| {
        vec![name.to_owned(), told.unwrap_or_else(|| "unknown".to_owned())]
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
        row("failure rate", failures.or_else(|| Some("unknown, or nothing has ended".to_owned()))),
        left("memory left", health.memory_mb_left),
        left("disk left", health.disk_mb_left),
    ]
}

/// Of one sandbox, `doctor` names the cause and the command that puts it right; of all, the runbook does.
fn alert_rows(firing: &[ActiveAlert]) -> Vec<Vec<String>> {
    let mut rows = vec![["SEVERITY", "ALERT", "ABOUT", "SINCE", "WHAT TO DO"].map(str::to_owned).to_vec()];
    rows.extend(firing.iter().map(|alert| {
        let sandbox = alert.subject.as_ref().map(|subject| harmless(&subject.sandbox_id));
        let runbook = harmless(&alert.runbook);
        let what_to_do = match &sandbox {
            Some(sandbox) => format!("pinfold doctor {sandbox}; {runbook}"),
            None => runbook,
        };
        vec![
            Mood::from(alert.severity).paint(&word(&alert.severity)),
            harmless(&alert.name),
            sandbox.unwrap_or_else(|| harmless(&alert.title)),
            harmless(&alert.since),
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
        let part = || HealthPart { status: HealthState::Unknown, message: Some("it does not answer".into()) };
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
        let plain = strip_str(&told(health)).to_string();
        plain.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn what_fires_is_told_with_what_to_do_about_it_and_what_the_host_has_left() {
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

        let told = lines(&health);

        for line in [
            "stuck 1",
            "failure rate 12.5 %",
            "memory left 2048 MiB",
            "disk left 512 MiB",
            "critical some_alert Some Alert 12:00 docs/runbook.md#step",
            "warning some_alert sbx_1 12:00 pinfold doctor sbx_1; docs/runbook.md#step",
        ] {
            assert!(told.iter().any(|it| it == line), "{line}: {told:#?}");
        }
        assert_eq!(told.last().unwrap(), "indicator: critical, status: ok");
    }

    #[test]
    fn what_is_not_known_is_said_to_be_unknown() {
        let told = lines(&unknown());

        for line in
            ["active unknown", "stuck unknown", "memory left unknown", "nobody can tell which alerts fire"]
        {
            assert!(told.iter().any(|it| it == line), "{line}: {told:#?}");
        }
        assert_eq!(told.last().unwrap(), "indicator: unknown, status: unknown");
    }
}
