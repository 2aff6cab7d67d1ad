//! `pinfold reconcile`: compares what is recorded with what is there, repairs the difference, and waits for it.

use std::process::ExitCode;

use pinfold_api::Comparison;

use crate::Place;
use crate::audit::problems;
use crate::documents;
use crate::exit;
use crate::plane::Plane;
use crate::progress::Progress;
use crate::quantities::milliseconds;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
    /// How long the repair may take: seconds, or 90s, 5m
    #[arg(long, value_name = "TIME", value_parser = milliseconds, default_value = "60s")]
    wait: u64,
}

pub(crate) async fn run(place: &Place, options: &Options) -> anyhow::Result<ExitCode> {
    let plane = Plane::open(place).await?;
    let waiting = Progress::of("comparing and repairing");
    let found = if options.dry_run { plane.audit().await } else { plane.reconcile(options.wait).await };
    drop(waiting);
    plane.close().await?;
    let found = found?;
    let unsettled = found.unsettled.unwrap_or(0);
    if place.json {
        documents::print(&found)?;
    } else {
        tell(&found, unsettled);
    }
    Ok(if unsettled == 0 { ExitCode::SUCCESS } else { ExitCode::from(exit::FAILED) })
}

fn tell(found: &Comparison, unsettled: u64) {
    anstream::println!("{} records, {} bodies", found.records, found.bodies);
    problems(found).iter().for_each(|problem| anstream::println!("{problem}"));
    if let Some(stats) = &found.stats {
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
        anstream::println!("{unsettled} are still being ended or looked at; they are not forgotten");
    }
}
