//! `pinfold alert`: what fires, what happened, who was told; to acknowledge, to silence, and to test.

use std::process::ExitCode;

use clap::ValueEnum;
use pinfold_api::{Alert, AlertDelivery, AlertEntry, AlertState, SilenceAlert};

use crate::Place;
use crate::colour::Mood;
use crate::documents::{self, word};
use crate::exit;
use crate::plane::Plane;
use crate::quantities::milliseconds;
use crate::table::{harmless, lay_out};

#[derive(clap::Subcommand)]
pub(crate) enum Alerts {
    /// List alerts: those that fire, wait or are not known, or all
    Ls {
        /// Those too that are quiet
        #[arg(long, short)]
        all: bool,
        /// Only those in this state
        #[arg(long, value_enum, conflicts_with = "all")]
        state: Option<Standing>,
    },
    /// Print what happened to alerts, the latest first
    History {
        /// Of this alert alone
        name: Option<String>,
        /// So many at the most
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1000))]
        limit: u64,
    },
    /// Print which messages were sent, and what came of them, the latest first
    Deliveries {
        /// So many at the most
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1000))]
        limit: u64,
    },
    /// See to alerts that fire: nobody else is called about these firings
    Ack {
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Call nobody about an alert for a while
    Silence {
        name: String,
        /// For so long, such as 30m or 2h
        #[arg(long = "for", value_name = "TIME", value_parser = milliseconds, conflicts_with = "until", required_unless_present = "until")]
        during: Option<u64>,
        /// Until this moment, such as 2026-01-31T18:00:00Z
        #[arg(long, value_name = "MOMENT")]
        until: Option<String>,
        /// Why, for whoever wonders
        #[arg(long)]
        reason: String,
    },
    /// Call somebody about alerts again
    Unsilence {
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Send a test message by every way that is configured
    Test,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Standing {
    Inactive,
    Pending,
    Firing,
    Resolved,
    Unknown,
}

pub(crate) async fn run(place: &Place, asked: &Alerts) -> anyhow::Result<ExitCode> {
    let plane = Plane::open(place).await?;
    let code = answer(&plane, place, asked).await?;
    plane.close().await?;
    Ok(code)
}

async fn answer(plane: &Plane, place: &Place, asked: &Alerts) -> anyhow::Result<ExitCode> {
    match asked {
        Alerts::Ls { all, state } => list(plane, place, *all, *state).await?,
        Alerts::History { name, limit } => {
            let history = plane.alert_history(name.as_deref(), *limit).await?;
            show(place, &history.entries, &history_rows(&history.entries))?;
        }
        Alerts::Deliveries { limit } => {
            let found = plane.alert_deliveries(*limit).await?;
            show(place, &found.deliveries, &delivery_rows(&found.deliveries))?;
        }
        Alerts::Ack { names } => {
            let mut changed = Vec::new();
            for name in names {
                changed.push(plane.acknowledge_alert(name).await?);
            }
            show(place, &changed, &alert_rows(&changed))?;
        }
        Alerts::Silence { name, during, until, reason } => {
            let for_s = during.map(|ms| ms.div_ceil(1_000));
            let wish = SilenceAlert { until: until.clone(), for_s, reason: reason.clone() };
            let changed = [plane.silence_alert(name, &wish).await?];
            show(place, &changed, &alert_rows(&changed))?;
        }
        Alerts::Unsilence { names } => {
            let mut changed = Vec::new();
            for name in names {
                changed.push(plane.unsilence_alert(name).await?);
            }
            show(place, &changed, &alert_rows(&changed))?;
        }
        Alerts::Test => return test(plane, place).await,
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(plane: &Plane, place: &Place, all: bool, state: Option<Standing>) -> anyhow::Result<()> {
    let state = state.map(|state| match state {
        Standing::Inactive => AlertState::Inactive,
        Standing::Pending => AlertState::Pending,
        Standing::Firing => AlertState::Firing,
        Standing::Resolved => AlertState::Resolved,
        Standing::Unknown => AlertState::Unknown,
    });
    let mut found = plane.alerts(state).await?;
    if !all && state.is_none() {
        found.alerts.retain(|alert| alert.state != AlertState::Inactive || alert.silence.is_some());
    }
    show(place, &found, &alert_rows(&found.alerts))
}

/// Nobody should learn only when it matters that messages do not arrive.
async fn test(plane: &Plane, place: &Place) -> anyhow::Result<ExitCode> {
    let tested = plane.test_alerts().await?;
    let mut rows = head(&["TARGET", "DELIVERED", "ANSWER"]);
    rows.extend(tested.results.iter().map(|result| {
        let delivered = if result.delivered { "yes" } else { "no" };
        vec![result.target.clone(), delivered.to_owned(), harmless(&result.message)]
    }));
    show(place, &tested, &rows)?;
    let is_well = tested.results.iter().all(|result| result.delivered);
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::from(exit::FAILED) })
}

fn show(place: &Place, document: &impl serde::Serialize, rows: &[Vec<String>]) -> anyhow::Result<()> {
    if place.json {
        return documents::print(document);
    }
    anstream::print!("{}", lay_out(rows));
    Ok(())
}

fn head(names: &[&str]) -> Vec<Vec<String>> {
    vec![names.iter().map(|name| (*name).to_owned()).collect()]
}

fn alert_rows(alerts: &[Alert]) -> Vec<Vec<String>> {
    let mut rows =
        head(&["NAME", "STATE", "SEVERITY", "VALUE", "ABOVE", "SINCE", "SEEN TO BY", "SILENT UNTIL"]);
    let or_none = |text: Option<&String>| text.map_or("-".to_owned(), |text| harmless(text));
    rows.extend(alerts.iter().map(|alert| {
        let first = alert.firings.first();
        let value = alert.value.map_or("-".to_owned(), figure);
        vec![
            alert.name.clone(),
            Mood::from(alert.state).paint(&word(&alert.state)),
            word(&alert.severity),
            value,
            figure(alert.threshold),
            or_none(first.map(|firing| &firing.since)),
            or_none(first.and_then(|firing| firing.acknowledged_by.as_ref())),
            or_none(alert.silence.as_ref().map(|silence| &silence.until)),
        ]
    }));
    rows
}

fn history_rows(entries: &[AlertEntry]) -> Vec<Vec<String>> {
    let mut rows = head(&["AT", "NAME", "EVENT", "TOLD", "MESSAGE"]);
    rows.extend(entries.iter().map(|entry| {
        let told = match &entry.untold {
            None if entry.told => "yes".to_owned(),
            None => "-".to_owned(),
            Some(why) => format!("no: {why}"),
        };
        vec![entry.at.clone(), entry.name.clone(), word(&entry.event), told, harmless(&entry.message)]
    }));
    rows
}

fn delivery_rows(deliveries: &[AlertDelivery]) -> Vec<Vec<String>> {
    let mut rows = head(&["AT", "NAME", "TARGET", "STATE", "ATTEMPTS", "ANSWER", "ID"]);
    rows.extend(deliveries.iter().map(|delivery| {
        vec![
            delivery.at.clone(),
            delivery.name.clone(),
            delivery.target.clone(),
            word(&delivery.state),
            delivery.attempts.to_string(),
            delivery.last.as_deref().map_or("-".to_owned(), harmless),
            delivery.id.clone(),
        ]
    }));
    rows
}

/// Counts are whole, and shares have few digits that matter.
fn figure(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.3}") }
}
