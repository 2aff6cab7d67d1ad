//! `pinfold reconcile`: compares what is recorded with what is there, repairs the difference, and waits for it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use pinfold_engine::{
    Census, Clock, Config, Fate, HostCensus, HostClock, OnExit, Reconcile, ReconcileReport,
};
use pinfold_lifecycle::{Lease, NodeId, Verdict};
use pinfold_store::{Filter, Row, Store};

use crate::host::{Host, data_directory};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Where sandboxes and their records are kept
    #[arg(long, env = "PINFOLD_DATA_DIR")]
    data_dir: Option<PathBuf>,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
    /// How many seconds the repair may take
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u64,
}

const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Rows read at a time: what is not on one page is on the next.
const PAGE: usize = 500;

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(reconcile(options))
}

async fn reconcile(options: &Options) -> anyhow::Result<ExitCode> {
    let data = data_directory(options.data_dir.as_ref())?;
    let host = Host::begin(&data).await?;
    let how = if options.dry_run { Reconcile::DryRun } else { Reconcile::Repair };
    let report = host.engine.reconcile(how).await?;
    print(&report);
    let unsettled = if options.dry_run { 0 } else { wait_until_settled(&host, &data, options.wait).await? };
    host.engine.shutdown(OnExit::Keep, 0).await?;
    if unsettled > 0 {
        println!("{unsettled} are still being ended or looked at; they are not forgotten");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

fn print(report: &ReconcileReport) {
    println!("{} records, {} bodies", report.records, report.bodies);
    for body in &report.bodies_without_record {
        println!("a body without a record: {} generation {}", body.sandbox, body.generation.0);
    }
    for id in &report.records_without_body {
        println!("a record without a whole body: {id}");
    }
    for id in &report.unreadable_records {
        println!("a record that cannot be read: {id}");
    }
    for mark in &report.unreadable_marks {
        println!("a mark that cannot be read, left alone: {mark}");
    }
}

/// How many are neither proven to work nor proven gone, after that time at the latest.
async fn wait_until_settled(host: &Host, data: &Path, seconds: u64) -> anyhow::Result<usize> {
    let census = HostCensus::take()?;
    let dead_after_ms = Config::default().dead_after_ms;
    let clock = HostClock::anchored(data, census.boot_id())?;
    let until = clock.now().after_ms(seconds.saturating_mul(1_000));
    loop {
        let nodes = host.store.nodes().await?;
        let others = nodes.iter().filter(|seen| seen.node.id != host.engine.node());
        let alive = others.filter(|seen| census.fate_of(seen, clock.now(), dead_after_ms) == Fate::Alive);
        let unsettled = unsettled(host, &alive.map(|seen| seen.node.id).collect::<Vec<_>>()).await?;
        if unsettled == 0 || clock.now() >= until {
            return Ok(unsettled);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn unsettled(host: &Host, others: &[NodeId]) -> anyhow::Result<usize> {
    let (mut count, mut after) = (0, None);
    loop {
        let page = host.store.list(Filter::Leased, after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(count) };
        after = Some(last.id());
        count += page.iter().filter(|row| !is_seen_to(row, host.engine.node(), others)).count();
    }
}

/// Known to work, or in the care of another process that lives.
fn is_seen_to(row: &Row, me: NodeId, others: &[NodeId]) -> bool {
    match row {
        Row::Readable(stored) if stored.sandbox.owner == me => match &stored.sandbox.lease {
            Lease::Live(live) => live.check.is_none() && live.health.verdict == Verdict::Healthy,
            Lease::Free { .. }
            | Lease::Starting { .. }
            | Lease::Stopping { .. }
            | Lease::StopWaiting { .. }
            | Lease::Quarantined { .. } => false,
        },
        Row::Readable(stored) => others.contains(&stored.sandbox.owner),
        Row::Unreadable(_) => false,
    }
}
