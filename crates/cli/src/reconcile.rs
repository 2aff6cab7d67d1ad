//! `pinfold reconcile`: compares records with instances, repairs the differences, and waits for the repairs.

use std::process::ExitCode;

use pinfold_api::ConsistencyReport;

use crate::GlobalOptions;
use crate::audit::problems;
use crate::backend::Backend;
use crate::exit;
use crate::json_output;
use crate::progress::Progress;
use crate::units::milliseconds;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only print the differences
    #[arg(long)]
    dry_run: bool,
    /// How long to wait for the repairs: seconds, or 90s, 5m
    #[arg(long, value_name = "TIME", value_parser = milliseconds, allow_hyphen_values = true, default_value = "60s")]
    wait: u64,
}

pub(crate) async fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<ExitCode> {
    let backend = Backend::open(global).await?;
    let waiting = Progress::of("comparing and repairing");
    let report = if options.dry_run { backend.audit().await } else { backend.reconcile(options.wait).await };
    drop(waiting);
    backend.close().await?;
    let report = report?;
    let unsettled = report.unsettled.unwrap_or(0);
    if global.json {
        json_output::print(&report)?;
    } else {
        print_report(&report, unsettled);
    }
    Ok(if unsettled == 0 { ExitCode::SUCCESS } else { ExitCode::from(exit::FAILED) })
}

fn print_report(report: &ConsistencyReport, unsettled: u64) {
    anstream::println!("{} records, {} instances", report.records, report.instances);
    problems(report).iter().for_each(|problem| anstream::println!("{problem}"));
    if let Some(stats) = &report.stats {
        anstream::println!(
            "Reconciliation complete: {} active, {} provisioning, {} terminating, {} quarantined; {} created and {} \
             destroyed in all",
            stats.active,
            stats.provisioning,
            stats.terminating,
            stats.quarantined,
            stats.total_created,
            stats.total_destroyed,
        );
    }
    if unsettled > 0 {
        anstream::println!("{unsettled} are not settled yet; the engine continues with them");
    }
}
