//! `pinfold audit`: compares records with instances, and repairs nothing.

use std::process::ExitCode;

use pinfold_api::ConsistencyReport;

use crate::GlobalOptions;
use crate::backend::Backend;
use crate::exit;
use crate::json_output::{self, wire_name};
use crate::progress::Progress;
use crate::table::escape_control;

pub(crate) async fn run(global: &GlobalOptions) -> anyhow::Result<ExitCode> {
    let backend = Backend::open(global).await?;
    let waiting = Progress::of("comparing");
    let report = backend.audit().await?;
    drop(waiting);
    backend.close().await?;
    let problems = problems(&report);
    if global.json {
        json_output::print(&report)?;
    } else {
        anstream::println!("{} records, {} instances", report.records, report.instances);
        problems.iter().for_each(|problem| anstream::println!("{problem}"));
        if !problems.is_empty() {
            anstream::println!("run `pinfold reconcile` to repair them");
        }
    }
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(exit::FAILED) })
}

/// One line for each problem.
pub(crate) fn problems(report: &ConsistencyReport) -> Vec<String> {
    let instances = report.instances_without_record.iter();
    let instances = instances.map(|instance| {
        format!("instance without a record: {} generation {}", instance.sandbox_id, instance.generation)
    });
    let each = |what: &'static str, of: &[String]| -> Vec<String> {
        of.iter().map(|it| format!("{what}: {}", escape_control(it))).collect()
    };
    let contradicted = report.status_disagreements.iter().map(|it| {
        let why = it.message.as_deref().map(|why| format!(" ({})", escape_control(why))).unwrap_or_default();
        let (status, probe) = (wire_name(&it.status), wire_name(&it.probe));
        format!("status contradicts the probe: {} is {status}, probe {probe}{why}", it.sandbox_id)
    });
    instances
        .chain(contradicted)
        .chain(each("record without a complete instance", &report.records_without_instance))
        .chain(each("record cannot be read", &report.unreadable_records))
        .chain(each("marker file cannot be read, left alone", &report.unreadable_markers))
        .chain(each("records contradict each other", &report.disagreements))
        .collect()
}
