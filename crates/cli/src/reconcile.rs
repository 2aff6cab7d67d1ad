//! `pinfold reconcile`: compares what is recorded with what is there, repairs the difference, and waits for it.

use std::process::ExitCode;
use std::time::Duration;

use pinfold_engine::{Census, Clock, Config, Fate, HostCensus, OnExit, Reconcile, ReconcileReport};
use pinfold_lifecycle::{Generation, Lease, NodeId, SandboxId, Verdict};
use pinfold_store::{Filter, Row, Store};
use serde::Serialize;

use crate::Place;
use crate::documents;
use crate::exit;
use crate::find::all;
use crate::host::{Host, begin};
use crate::progress::Progress;
use crate::quantities::milliseconds;
use crate::table::harmless;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
    /// How long the repair may take: seconds, or 90s, 5m
    #[arg(long, value_name = "TIME", value_parser = milliseconds, default_value = "60s")]
    wait: u64,
}

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What was found, and what is not settled yet.
#[derive(Serialize)]
struct Document<'a> {
    dry_run: bool,
    records: usize,
    bodies: usize,
    bodies_without_record: Vec<BodyDocument>,
    records_without_body: &'a [SandboxId],
    unreadable_records: &'a [SandboxId],
    unreadable_marks: &'a [String],
    unsettled: usize,
}

#[derive(Serialize)]
struct BodyDocument {
    sandbox_id: SandboxId,
    generation: Generation,
}

pub(crate) async fn run(place: &Place, options: &Options) -> anyhow::Result<ExitCode> {
    let host = begin(place).await?;
    let waiting = Progress::of("comparing and repairing");
    let how = if options.dry_run { Reconcile::DryRun } else { Reconcile::Repair };
    let report = host.engine.reconcile(how).await?;
    let unsettled = if options.dry_run { 0 } else { wait_until_settled(&host, options.wait).await? };
    drop(waiting);
    host.engine.shutdown(OnExit::Keep, 0).await?;
    if place.json {
        documents::print(&document(&report, options.dry_run, unsettled))?;
    } else {
        tell(&report, unsettled);
    }
    Ok(if unsettled == 0 { ExitCode::SUCCESS } else { ExitCode::from(exit::FAILED) })
}

fn document(report: &ReconcileReport, dry_run: bool, unsettled: usize) -> Document<'_> {
    let orphans = report.bodies_without_record.iter();
    Document {
        dry_run,
        records: report.records,
        bodies: report.bodies,
        bodies_without_record: orphans
            .map(|body| BodyDocument { sandbox_id: body.sandbox, generation: body.generation })
            .collect(),
        records_without_body: &report.records_without_body,
        unreadable_records: &report.unreadable_records,
        unreadable_marks: &report.unreadable_marks,
        unsettled,
    }
}

fn tell(report: &ReconcileReport, unsettled: usize) {
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
        println!("a mark that cannot be read, left alone: {}", harmless(mark));
    }
    if unsettled > 0 {
        println!("{unsettled} are still being ended or looked at; they are not forgotten");
    }
}

/// How many are neither proven to work nor proven gone, after that time at the latest.
async fn wait_until_settled(host: &Host, wait_ms: u64) -> anyhow::Result<usize> {
    let census = HostCensus::take()?;
    let dead_after_ms = Config::default().dead_after_ms;
    let clock = &host.clock;
    let until = clock.now().after_ms(wait_ms);
    loop {
        let nodes = host.store.nodes().await?;
        let others = nodes.iter().filter(|seen| seen.node.id != host.engine.node());
        let alive = others.filter(|seen| census.fate_of(seen, clock.now(), dead_after_ms) == Fate::Alive);
        let alive: Vec<_> = alive.map(|seen| seen.node.id).collect();
        let rows = all(&host.store, Filter::Leased).await?;
        let unsettled = rows.iter().filter(|row| !is_seen_to(row, host.engine.node(), &alive)).count();
        if unsettled == 0 || clock.now() >= until {
            return Ok(unsettled);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Known to work, or in the care of another process that lives.
fn is_seen_to(row: &Row, me: NodeId, others: &[NodeId]) -> bool {
    match row {
        Row::Readable(stored) if stored.sandbox.owner == me => match &stored.sandbox.lease {
            Lease::Live(live) => live.check.is_none() && live.health.verdict == Verdict::Healthy,
            // The next body has its time, and nothing is left of the last one.
            Lease::LaunchWaiting { .. } => true,
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
