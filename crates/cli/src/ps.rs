//! `pinfold ps`: what sandboxes there are, and how they are.

use std::process::ExitCode;
use std::time::Duration;

use pinfold_engine::{Clock, OnExit};
use pinfold_lifecycle::{State, Timestamp, profile};
use pinfold_store::{Filter, Row};

use crate::Place;
use crate::documents::{self, SandboxDocument, word};
use crate::failure::Failure;
use crate::find::all;
use crate::host::{Host, begin};
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
}

/// What nobody has looked at for a while is looked at now, and that is waited for so long.
const FRESH_LOOK: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub(crate) async fn run(place: &Place, options: &Options) -> anyhow::Result<ExitCode> {
    let wanted = wanted(options)?;
    let host = begin(place).await?;
    let sandboxes = sandboxes(&host, wanted.filter).await?;
    host.engine.shutdown(OnExit::Keep, 0).await?;
    let shown: Vec<_> = sandboxes.into_iter().filter(|sandbox| wanted.includes(sandbox)).collect();
    if place.json {
        documents::print(&shown)?;
    } else {
        print!("{}", lay_out(&rows(&shown)));
    }
    Ok(ExitCode::SUCCESS)
}

struct Wanted<'a> {
    filter: Filter,
    status: Option<State>,
    labels: &'a [(String, String)],
    agent_type: Option<&'static str>,
}

impl Wanted<'_> {
    fn includes(&self, sandbox: &SandboxDocument) -> bool {
        let has = |(name, value): &(String, String)| sandbox.labels.get(name) == Some(value);
        self.status.is_none_or(|status| status == sandbox.status)
            && self.labels.iter().all(has)
            && self.agent_type.is_none_or(|agent| sandbox.profile == agent)
    }
}

fn wanted(options: &Options) -> anyhow::Result<Wanted<'_>> {
    let status = options.status.as_deref().map(state).transpose()?;
    let is_final =
        status.is_some_and(|state| matches!(state, State::Completed | State::Failed | State::Terminated));
    Ok(Wanted {
        filter: if options.all || is_final { Filter::All } else { Filter::Present },
        status,
        labels: &options.labels,
        agent_type: options.agent_type.as_deref().map(profile::named).transpose()?.map(|known| known.name),
    })
}

fn state(given: &str) -> Result<State, Failure> {
    let plain = given.to_ascii_lowercase();
    serde_json::from_value(plain.into()).map_err(|_| Failure::BadField {
        field: "status",
        why: format!(
            "there is no `{given}`; there are provisioning, ready, running, unhealthy, unknown, terminating, \
             quarantined, completed, failed, terminated"
        ),
    })
}

/// Sandboxes whose engines are gone have not been looked at since: this process has adopted them, looks, and does what
/// is overdue.
async fn sandboxes(host: &Host, filter: Filter) -> anyhow::Result<Vec<SandboxDocument>> {
    let end = tokio::time::Instant::now() + FRESH_LOOK;
    loop {
        let now = host.clock.now();
        let rows = all(&host.store, filter).await?;
        let seen: Vec<_> = rows.iter().map(|row| SandboxDocument::of(row, now)).collect();
        let in_motion = rows.iter().zip(&seen).any(|(row, seen)| is_in_motion(row, seen, now));
        if !in_motion || tokio::time::Instant::now() >= end {
            return Ok(seen);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// What is seen of it now is soon no longer so.
fn is_in_motion(row: &Row, seen: &SandboxDocument, now: Timestamp) -> bool {
    match row {
        Row::Readable(stored) => {
            let is_overdue = stored.sandbox.next_deadline().is_some_and(|at| at <= now);
            is_overdue || matches!(seen.status, State::Unknown | State::Terminating)
        }
        Row::Unreadable(_) => false,
    }
}

fn rows(sandboxes: &[SandboxDocument]) -> Vec<Vec<String>> {
    let titles = ["ID", "NAME", "STATUS", "PROFILE", "AGE", "TASK", "EXECUTIONS", "FLAGS", "LABELS"];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    for it in sandboxes {
        let or_dash = |text: Option<&String>| text.map_or_else(|| "-".to_owned(), |text| harmless(text));
        let cause = it.cause.map(|cause| format!(" ({})", word(&cause))).unwrap_or_default();
        rows.push(vec![
            it.id.to_string(),
            or_dash(it.name.as_ref()),
            format!("{}{cause}", word(&it.status)),
            harmless(&it.profile),
            it.age_ms.map_or_else(|| "-".to_owned(), age),
            or_dash(it.task_id.as_ref()),
            it.executions.to_string(),
            if it.flags.is_empty() { "-".to_owned() } else { it.flags.join(",") },
            labels(it),
        ]);
    }
    rows
}

fn labels(sandbox: &SandboxDocument) -> String {
    let labels = sandbox.labels.iter().map(|(name, value)| harmless(&format!("{name}={value}")));
    if sandbox.labels.is_empty() { "-".to_owned() } else { labels.collect::<Vec<_>>().join(",") }
}
