//! `pinfold inspect`: prints everything about one sandbox, also after its end.

use std::process::ExitCode;

use pinfold_api::{Execution, Sandbox};

use crate::GlobalOptions;
use crate::backend::Backend;
use crate::colour::StatusColour;
use crate::find::find;
use crate::json_output::{self, wire_name};
use crate::stop::format_receipt;
use crate::table::{escape_control, format_table};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The sandbox: its id, a unique prefix of the id, or its name
    sandbox: String,
}

pub(crate) async fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<ExitCode> {
    let backend = Backend::open(global).await?;
    let id = find(&backend, &options.sandbox).await?;
    let sandbox = backend.sandbox(&id).await?;
    if global.json {
        backend.close().await?;
        json_output::print(&sandbox)?;
        return Ok(ExitCode::SUCCESS);
    }
    let executions = backend.executions(&id).await?;
    backend.close().await?;
    anstream::print!("{}", format_table(&facts(&sandbox)));
    if !executions.is_empty() {
        anstream::print!("\n{}", format_table(&rows(&executions)));
    }
    if let Some(receipt) = &sandbox.receipt {
        anstream::print!("\n{}", format_receipt(receipt));
    }
    Ok(ExitCode::SUCCESS)
}

fn facts(it: &Sandbox) -> Vec<Vec<String>> {
    let cause = it.cause.map(|cause| format!(" ({})", wire_name(&cause))).unwrap_or_default();
    let labels: Vec<_> = it.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let with_unit = |value: Option<u64>, unit: &str| value.map(|value| format!("{value} {unit}"));
    let facts = [
        ("id", Some(it.id.clone())),
        ("name", it.name.clone()),
        ("status", Some(format!("{}{cause}", wire_name(&it.status.state)))),
        ("message", Some(it.status.message.clone()).filter(|text| !text.is_empty())),
        ("start failed", it.start_failure.clone()),
        ("verified", it.status.verified_at.clone()),
        ("created", it.created_at.clone()),
        ("expires", it.deadlines.expires_at.clone()),
        ("next deadline", it.deadlines.next.clone()),
        ("profile", Some(it.agent_type.clone().unwrap_or_else(|| "default".into()))),
        ("image", Some(it.image.clone())),
        ("task", it.task_id.clone()),
        ("labels", Some(labels.join(",")).filter(|labels| !labels.is_empty())),
        ("lease", Some(format!("{}, generation {}", wire_name(&it.lease.state), it.lease.generation))),
        ("memory", with_unit(it.limits.memory_mb, "MiB")),
        ("disk", with_unit(it.limits.disk_mb, "MiB")),
        ("processes", with_unit(it.limits.processes, "at once")),
        ("execution time", with_unit(it.limits.timeout_ms, "ms")),
        ("CPU time used", with_unit(it.usage.and_then(|used| used.cpu_ms), "ms")),
        ("peak memory", with_unit(it.usage.and_then(|used| used.memory_peak_bytes), "bytes")),
        ("flags", Some(it.flags.join(",")).filter(|flags| !flags.is_empty())),
    ];
    let known = facts.into_iter().filter_map(|(what, value)| Some((what, value?)));
    let shown = |what: &str, value: &str| match what {
        "status" => StatusColour::from(it.status.state).paint(&escape_control(value)),
        _ => escape_control(value),
    };
    known.map(|(what, value)| vec![what.to_owned(), shown(what, &value)]).collect()
}

fn rows(executions: &[Execution]) -> Vec<Vec<String>> {
    let mut rows = vec![["EXECUTION", "STATE", "CODE", "STARTED", "COMMAND"].map(str::to_owned).to_vec()];
    rows.extend(executions.iter().map(|it| {
        let code = it.exit_code.map_or_else(|| "-".to_owned(), |code| code.to_string());
        let started = it.started_at.clone().unwrap_or_else(|| "-".to_owned());
        let state = StatusColour::from(it.state).paint(&wire_name(&it.state));
        vec![it.execution_id.clone(), state, code, started, escape_control(&it.command.join(" "))]
    }));
    rows
}
