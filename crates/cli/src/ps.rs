//! `pinfold ps`: what sandboxes there are, and how they are.

use std::process::ExitCode;
use std::time::Duration;

use pinfold_api::SandboxSummary;
use pinfold_lifecycle::{State, Timestamp, status};
use pinfold_store::{Filter, Row};

use crate::Place;
use crate::colour::Mood;
use crate::documents::{self, ms_of, word};
use crate::find::all;
use crate::host::Host;
use crate::plane::{Plane, Wanted};
use crate::quantities::pair;
use crate::table::{age, harmless, lay_out};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Also those that have ended, until their records are too old to keep
    #[arg(long, short)]
    all: bool,
    /// Only those in this state, such as ready, running, unknown, quarantined or failed
    #[arg(long, value_name = "STATE")]
    status: Option<String>,
    /// Only those with this label; may be given again
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = pair)]
    labels: Vec<(String, String)>,
    /// Only those of this type of agent
    #[arg(long, value_name = "PROFILE")]
    agent_type: Option<String>,
    /// Only those that work for this task
    #[arg(long, value_name = "ID")]
    task: Option<String>,
}

/// What nobody has looked at for a while is looked at now, and that is waited for so long.
const FRESH_LOOK: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub(crate) async fn run(place: &Place, options: &Options) -> anyhow::Result<ExitCode> {
    let plane = Plane::open(place).await?;
    if let Plane::Here(here) = &plane {
        look_afresh(here.service.host()).await?;
    }
    let shown = plane.list(&wanted(options)).await?;
    plane.close().await?;
    if place.json {
        documents::print(&shown)?;
    } else {
        anstream::print!("{}", lay_out(&rows(&shown)));
    }
    Ok(ExitCode::SUCCESS)
}

fn wanted(options: &Options) -> Wanted {
    let status = options.status.as_ref().map(|status| status.to_ascii_lowercase());
    Wanted {
        status: status.or_else(|| options.all.then(|| "all".to_owned())),
        agent_type: options.agent_type.clone(),
        labels: options.labels.clone(),
        task_id: options.task.clone(),
    }
}

/// Sandboxes whose engines are gone have not been looked at since: this process has adopted them, looks, and does what
/// is overdue.
async fn look_afresh(host: &Host) -> anyhow::Result<()> {
    let end = tokio::time::Instant::now() + FRESH_LOOK;
    loop {
        let now = host.clock.now();
        let in_motion = all(&host.store, Filter::Present).await?.iter().any(|row| is_in_motion(row, now));
        if !in_motion || tokio::time::Instant::now() >= end {
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// What is seen of it now is soon no longer so.
fn is_in_motion(row: &Row, now: Timestamp) -> bool {
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
        let or_dash = |text: Option<&String>| text.map_or_else(|| "-".to_owned(), |text| harmless(text));
        let cause = it.cause.map(|cause| format!(" ({})", word(&cause))).unwrap_or_default();
        let age_ms = it.created_at.as_deref().and_then(ms_of).and_then(|at| u64::try_from(now - at).ok());
        rows.push(vec![
            it.id.clone(),
            or_dash(it.name.as_ref()),
            Mood::from(it.status).paint(&format!("{}{cause}", word(&it.status))),
            it.agent_type.as_deref().map_or_else(|| "default".to_owned(), harmless),
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
    let labels = sandbox.labels.iter().map(|(name, value)| harmless(&format!("{name}={value}")));
    if sandbox.labels.is_empty() { "-".to_owned() } else { labels.collect::<Vec<_>>().join(",") }
}
