//! `pinfold inspect`: everything about one sandbox, also after its end.

use std::process::ExitCode;

use pinfold_api::{Execution, Sandbox};

use crate::Place;
use crate::colour::Mood;
use crate::documents::{self, word};
use crate::find::find;
use crate::plane::Plane;
use crate::stop::tell_receipt;
use crate::table::{harmless, lay_out};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The sandbox: its id, a beginning of it that is no other's, or its name
    sandbox: String,
}

pub(crate) async fn run(place: &Place, options: &Options) -> anyhow::Result<ExitCode> {
    let plane = Plane::open(place).await?;
    let id = find(&plane, &options.sandbox).await?;
    let sandbox = plane.sandbox(&id).await?;
    if place.json {
        plane.close().await?;
        documents::print(&sandbox)?;
        return Ok(ExitCode::SUCCESS);
    }
    let executions = plane.executions(&id).await?;
    plane.close().await?;
    anstream::print!("{}", lay_out(&facts(&sandbox)));
    if !executions.is_empty() {
        anstream::print!("\n{}", lay_out(&rows(&executions)));
    }
    if let Some(receipt) = &sandbox.receipt {
        anstream::print!("\n{}", tell_receipt(receipt));
    }
    Ok(ExitCode::SUCCESS)
}

fn facts(it: &Sandbox) -> Vec<Vec<String>> {
    let cause = it.cause.map(|cause| format!(" ({})", word(&cause))).unwrap_or_default();
    let labels: Vec<_> = it.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let figure = |value: Option<u64>, unit: &str| value.map(|value| format!("{value} {unit}"));
    let told = [
        ("id", Some(it.id.clone())),
        ("name", it.name.clone()),
        ("status", Some(format!("{}{cause}", word(&it.status.state)))),
        ("says", Some(it.status.message.clone()).filter(|said| !said.is_empty())),
        ("start failed", it.start_failure.clone()),
        ("verified", it.status.verified_at.clone()),
        ("created", it.created_at.clone()),
        ("ends at the latest", it.deadlines.expires_at.clone()),
        ("next deadline", it.deadlines.next.clone()),
        ("profile", Some(it.agent_type.clone().unwrap_or_else(|| "default".into()))),
        ("image", Some(it.image.clone())),
        ("task", it.task_id.clone()),
        ("labels", Some(labels.join(",")).filter(|labels| !labels.is_empty())),
        ("lease", Some(format!("{}, generation {}", word(&it.lease.state), it.lease.generation))),
        ("memory", figure(it.limits.memory_mb, "MiB")),
        ("disk", figure(it.limits.disk_mb, "MiB")),
        ("processes", figure(it.limits.processes, "at once")),
        ("execution time", figure(it.limits.timeout_ms, "ms")),
        ("CPU used", figure(it.usage.and_then(|used| used.cpu_ms), "ms")),
        ("memory used at most", figure(it.usage.and_then(|used| used.memory_peak_bytes), "bytes")),
        ("flags", Some(it.flags.join(",")).filter(|flags| !flags.is_empty())),
    ];
    let known = told.into_iter().filter_map(|(what, value)| Some((what, value?)));
    let shown = |what: &str, value: &str| match what {
        "status" => Mood::from(it.status.state).paint(&harmless(value)),
        _ => harmless(value),
    };
    known.map(|(what, value)| vec![what.to_owned(), shown(what, &value)]).collect()
}

fn rows(executions: &[Execution]) -> Vec<Vec<String>> {
    let mut rows = vec![["EXECUTION", "STATE", "CODE", "STARTED", "COMMAND"].map(str::to_owned).to_vec()];
    rows.extend(executions.iter().map(|it| {
        let code = it.exit_code.map_or_else(|| "-".to_owned(), |code| code.to_string());
        let started = it.started_at.clone().unwrap_or_else(|| "-".to_owned());
        let state = Mood::from(it.state).paint(&word(&it.state));
        vec![it.execution_id.clone(), state, code, started, harmless(&it.command.join(" "))]
    }));
    rows
}
