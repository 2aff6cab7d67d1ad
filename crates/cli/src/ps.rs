//! `pinfold ps`: lists sandboxes and their states.

use std::process::ExitCode;
use std::time::Duration;

use pinfold_api::SandboxSummary;
use pinfold_lifecycle::{State, Timestamp, status};
use pinfold_store::{Row, SandboxFilter};

use crate::GlobalOptions;
use crate::backend::{Backend, SandboxQuery};
use crate::colour::StatusColour;
use crate::find::all;
use crate::host::Host;
use crate::json_output::{self, ms_of, wire_name};
use crate::table::{age, escape_control, format_table};
use crate::units::pair;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Include ended sandboxes, until their records expire
    #[arg(long, short)]
    all: bool,
    /// Only sandboxes in this state, such as ready, running, unknown, quarantined or failed
    #[arg(long, value_name = "STATE")]
    status: Option<String>,
    /// Only sandboxes with this label; may be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = pair)]
    labels: Vec<(String, String)>,
    /// Only sandboxes of this agent type
    #[arg(long, value_name = "PROFILE")]
    agent_type: Option<String>,
    /// Only sandboxes of this task
    #[arg(long, value_name = "ID")]
    task: Option<String>,
}

/// How long to wait for fresh observations, and the interval between checks.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(1);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

pub(crate) async fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<ExitCode> {
    let backend = Backend::open(global).await?;
    if let Backend::Local(local) = &backend {
        wait_for_fresh_status(local.service.host()).await?;
    }
    let shown = backend.list(&filter(options)).await?;
    backend.close().await?;
    if global.json {
        json_output::print(&shown)?;
    } else {
        anstream::print!("{}", format_table(&rows(&shown)));
    }
    Ok(ExitCode::SUCCESS)
}

fn filter(options: &Options) -> SandboxQuery {
    let status = options.status.as_ref().map(|status| status.to_ascii_lowercase());
    SandboxQuery {
        status: status.or_else(|| options.all.then(|| "all".to_owned())),
        agent_type: options.agent_type.clone(),
        labels: options.labels.clone(),
        task_id: options.task.clone(),
    }
}

/// Waits until this process has observed the sandboxes that it adopted from dead engines, whose recorded state may be
/// stale, and has done what is overdue.
async fn wait_for_fresh_status(host: &Host) -> anyhow::Result<()> {
    let end = tokio::time::Instant::now() + REFRESH_TIMEOUT;
    loop {
        let now = host.clock.now();
        let settling =
            all(host.store.as_ref(), SandboxFilter::Present).await?.iter().any(|row| is_settling(row, now));
        if !settling || tokio::time::Instant::now() >= end {
            return Ok(());
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Whether the recorded state is about to change.
fn is_settling(row: &Row, now: Timestamp) -> bool {
    match row {
        Row::Readable(stored) => {
            let is_overdue = stored.sandbox.next_deadline().is_some_and(|at| at <= now);
            let seen = status(&stored.sandbox, now, &stored.policy).state;
            is_overdue || matches!(seen, State::Unknown | State::Terminating)
        }
        Row::Unreadable(_) => false,
    }
}

fn rows(sandboxes: &[SandboxSummary]) -> Vec<Vec<String>> {
    let titles = ["ID", "NAME", "STATUS", "PROFILE", "AGE", "TASK", "EXECUTIONS", "FLAGS", "LABELS"];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    let now = jiff::Timestamp::now().as_millisecond();
    for it in sandboxes {
        let or_dash =
            |text: Option<&String>| text.map_or_else(|| "-".to_owned(), |text| escape_control(text));
        let cause = it.cause.map(|cause| format!(" ({})", wire_name(&cause))).unwrap_or_default();
        let age_ms = it.created_at.as_deref().and_then(ms_of).and_then(|at| u64::try_from(now - at).ok());
        rows.push(vec![
            it.id.clone(),
            or_dash(it.name.as_ref()),
            StatusColour::from(it.status).paint(&format!("{}{cause}", wire_name(&it.status))),
            it.agent_type.as_deref().map_or_else(|| "default".to_owned(), escape_control),
            age_ms.map_or_else(|| "-".to_owned(), age),
            or_dash(it.task_id.as_ref()),
            it.executions.to_string(),
            if it.flags.is_empty() { "-".to_owned() } else { it.flags.join(",") },
            labels(it),
        ]);
    }
    rows
}

fn labels(sandbox: &SandboxSummary) -> String {
    let labels = sandbox.labels.iter().map(|(name, value)| escape_control(&format!("{name}={value}")));
    if sandbox.labels.is_empty() { "-".to_owned() } else { labels.collect::<Vec<_>>().join(",") }
}
