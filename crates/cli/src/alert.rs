//! `pinfold alert`: list alerts, their history and deliveries; acknowledge, silence and test them.

use std::process::ExitCode;

use clap::ValueEnum;
use pinfold_api::{Alert, AlertDelivery, AlertEntry, AlertState, SilenceAlert};

use crate::GlobalOptions;
use crate::backend::Backend;
use crate::colour::StatusColour;
use crate::exit;
use crate::json_output::{self, wire_name};
use crate::table::{escape_control, format_table};
use crate::units::milliseconds;

#[derive(clap::Subcommand)]
pub(crate) enum Alerts {
    /// List alerts that are firing, pending or unknown; or all
    Ls {
        /// Include inactive alerts
        #[arg(long, short)]
        all: bool,
        /// Only alerts in this state
        #[arg(long, value_enum, conflicts_with = "all")]
        state: Option<AlertStateArgument>,
    },
    /// Print the history of alerts, newest first
    History {
        /// Only of this alert
        name: Option<String>,
        /// Maximum number of entries
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1000))]
        limit: u64,
    },
    /// Print sent notifications and their results, newest first
    Deliveries {
        /// Maximum number of entries
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1000))]
        limit: u64,
    },
    /// Acknowledge firing alerts: they send no further notifications and do not escalate
    Ack {
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Send no notifications about an alert for some time
    Silence {
        name: String,
        /// How long, such as 30m or 2h
        #[arg(long = "for", value_name = "TIME", value_parser = milliseconds, allow_hyphen_values = true, conflicts_with = "until", required_unless_present = "until")]
        duration: Option<u64>,
        /// Until this time, such as 2026-01-31T18:00:00Z
        #[arg(long, value_name = "MOMENT")]
        until: Option<String>,
        /// Why; recorded with the silence
        #[arg(long)]
        reason: String,
    },
    /// End silences, so that alerts send notifications again
    Unsilence {
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Send a test message through every configured channel
    Test,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum AlertStateArgument {
    Inactive,
    Pending,
    Firing,
    Resolved,
    Unknown,
}

pub(crate) async fn run(global: &GlobalOptions, command: &Alerts) -> anyhow::Result<ExitCode> {
    let backend = Backend::open(global).await?;
    let code = answer(&backend, global, command).await?;
    backend.close().await?;
    Ok(code)
}

async fn answer(backend: &Backend, global: &GlobalOptions, command: &Alerts) -> anyhow::Result<ExitCode> {
    match command {
        Alerts::Ls { all, state } => list(backend, global, *all, *state).await?,
        Alerts::History { name, limit } => {
            let history = backend.alert_history(name.as_deref(), *limit).await?;
            show(global, &history.entries, &history_rows(&history.entries))?;
        }
        Alerts::Deliveries { limit } => {
            let found = backend.alert_deliveries(*limit).await?;
            show(global, &found.deliveries, &delivery_rows(&found.deliveries))?;
        }
        Alerts::Ack { names } => {
            let mut changed = Vec::new();
            for name in names {
                changed.push(backend.acknowledge_alert(name).await?);
            }
            show(global, &changed, &alert_rows(&changed))?;
        }
        Alerts::Silence { name, duration, until, reason } => {
            let for_s = duration.map(|ms| ms.div_ceil(1_000));
            let request = SilenceAlert { until: until.clone(), for_s, reason: reason.clone() };
            let changed = [backend.silence_alert(name, &request).await?];
            show(global, &changed, &alert_rows(&changed))?;
        }
        Alerts::Unsilence { names } => {
            let mut changed = Vec::new();
            for name in names {
                changed.push(backend.unsilence_alert(name).await?);
            }
            show(global, &changed, &alert_rows(&changed))?;
        }
        Alerts::Test => return test(backend, global).await,
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(
    backend: &Backend,
    global: &GlobalOptions,
    all: bool,
    state: Option<AlertStateArgument>,
) -> anyhow::Result<()> {
    let state = state.map(|state| match state {
        AlertStateArgument::Inactive => AlertState::Inactive,
        AlertStateArgument::Pending => AlertState::Pending,
        AlertStateArgument::Firing => AlertState::Firing,
        AlertStateArgument::Resolved => AlertState::Resolved,
        AlertStateArgument::Unknown => AlertState::Unknown,
    });
    let mut found = backend.alerts(state).await?;
    if !all && state.is_none() {
        found.alerts.retain(|alert| alert.state != AlertState::Inactive || alert.silence.is_some());
    }
    show(global, &found, &alert_rows(&found.alerts))
}

/// Exits with an error if any channel failed, so that a broken channel is found before a real alert.
async fn test(backend: &Backend, global: &GlobalOptions) -> anyhow::Result<ExitCode> {
    let tested = backend.test_alerts().await?;
    let mut rows = head(&["TARGET", "DELIVERED", "ANSWER"]);
    rows.extend(tested.results.iter().map(|result| {
        let delivered = if result.delivered { "yes" } else { "no" };
        vec![result.target.clone(), delivered.to_owned(), escape_control(&result.message)]
    }));
    show(global, &tested, &rows)?;
    let all_delivered = tested.results.iter().all(|result| result.delivered);
    Ok(if all_delivered { ExitCode::SUCCESS } else { ExitCode::from(exit::FAILED) })
}

fn show(
    global: &GlobalOptions,
    document: &impl serde::Serialize,
    rows: &[Vec<String>],
) -> anyhow::Result<()> {
    if global.json {
        return json_output::print(document);
    }
    anstream::print!("{}", format_table(rows));
    Ok(())
}

fn head(names: &[&str]) -> Vec<Vec<String>> {
    vec![names.iter().map(|name| (*name).to_owned()).collect()]
}

fn alert_rows(alerts: &[Alert]) -> Vec<Vec<String>> {
    let mut rows =
        head(&["NAME", "STATE", "SEVERITY", "VALUE", "ABOVE", "SINCE", "ACKNOWLEDGED BY", "SILENCED UNTIL"]);
    let or_none = |text: Option<&String>| text.map_or("-".to_owned(), |text| escape_control(text));
    rows.extend(alerts.iter().map(|alert| {
        let first = alert.firings.first();
        let value = alert.value.map_or("-".to_owned(), format_value);
        vec![
            alert.name.clone(),
            StatusColour::from(alert.state).paint(&wire_name(&alert.state)),
            wire_name(&alert.severity),
            value,
            format_value(alert.threshold),
            or_none(first.map(|firing| &firing.since)),
            or_none(first.and_then(|firing| firing.acknowledged_by.as_ref())),
            or_none(alert.silence.as_ref().map(|silence| &silence.until)),
        ]
    }));
    rows
}

fn history_rows(entries: &[AlertEntry]) -> Vec<Vec<String>> {
    let mut rows = head(&["AT", "NAME", "EVENT", "NOTIFIED", "MESSAGE"]);
    rows.extend(entries.iter().map(|entry| {
        let notified = match &entry.suppressed_by {
            None if entry.notified => "yes".to_owned(),
            None => "-".to_owned(),
            Some(why) => format!("no: {why}"),
        };
        vec![
            entry.at.clone(),
            entry.name.clone(),
            wire_name(&entry.event),
            notified,
            escape_control(&entry.message),
        ]
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
            wire_name(&delivery.state),
            delivery.attempts.to_string(),
            delivery.last_result.as_deref().map_or("-".to_owned(), escape_control),
            delivery.id.clone(),
        ]
    }));
    rows
}

/// Formats counts as integers and rates with three decimals.
fn format_value(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.3}") }
}
