//! `cargo xtask bench cleanup`: one cleanup over many real sandboxes, a fifth of them stuck. Prints how many it
//! found and ended, and how long it took by its own record. Fails unless it did exactly that, in time.

#![allow(clippy::print_stdout, reason = "what it prints is what it is for")]

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use pinfold_bench_report::{at_most, cpu_time, cpu_time_of_all, describe};
use pinfold_cleanup_e2e::{AlertInterval, Counts, Fixture, ReportedAlerts, create_sandboxes};
use pinfold_linux::SpawnerProgram;
use tokio::signal::unix::{SignalKind, signal};

/// The hidden command under which this program is its own spawner.
const SPAWNER: &str = "__spawner";
const TARGET_S: f64 = 10.0;
/// As in a server.
const ALERT_INTERVAL: AlertInterval = AlertInterval(Duration::from_secs(1));

#[derive(Parser)]
#[command(name = "pinfold-cleanup-e2e", about = "Measures one cleanup over many sandboxes")]
struct Arguments {
    #[command(subcommand)]
    role: Role,
}

#[derive(clap::Subcommand)]
enum Role {
    /// Measure one cleanup
    Bench {
        /// Sandboxes that are working
        #[arg(long, default_value_t = 160)]
        working: usize,
        /// Sandboxes that are stuck in each of the four ways
        #[arg(long, default_value_t = 10)]
        stuck_per_kind: usize,
        /// Few sandboxes: to see that it works, not to quote
        #[arg(long)]
        quick: bool,
    },
    #[command(name = SPAWNER, hide = true)]
    Spawner,
}

fn main() -> Result<()> {
    let size = match Arguments::parse().role {
        Role::Spawner => return Ok(pinfold_keeper::spawner::run()?),
        Role::Bench { quick: true, .. } => Counts { working: 16, stuck_per_kind: 1 },
        Role::Bench { working, stuck_per_kind, quick: false } => {
            Counts { working: working.max(1), stuck_per_kind: stuck_per_kind.max(1) }
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(bench(size))
}

async fn bench(size: Counts) -> Result<()> {
    println!("{}; Pinfold {}", describe()?, env!("CARGO_PKG_VERSION"));
    println!("one scheduled cleanup; its duration is the one in its record\n");
    let spawner = SpawnerProgram { program: std::env::current_exe()?, arguments: vec![SPAWNER.into()] };
    // On disk on every host, and short enough for the path of a socket.
    let data = tempfile::Builder::new().prefix("pinfold-bench-").tempdir_in("/var/tmp")?;
    let fixture = Fixture::begin(data, spawner, ALERT_INTERVAL).await?;
    let (mut interrupted, mut terminated) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let measured = tokio::select! {
        measured = measure(&fixture, size) => measured,
        _ = interrupted.recv() => Err(anyhow::anyhow!("interrupted")),
        _ = terminated.recv() => Err(anyhow::anyhow!("terminated")),
    };
    let ended = fixture.end().await;
    measured?;
    ended
}

async fn measure(fixture: &Fixture, size: Counts) -> Result<()> {
    let sandboxes = create_sandboxes(fixture, size).await?;
    let server = sandboxes.age(fixture).await?;
    let before = ReportedAlerts::read(&server).await?;
    let (own, all) = (cpu_time(), cpu_time_of_all()?);
    let run = fixture.wait_for_first_cleanup(&server).await?;
    let (own, all) = (cpu_time() - own, cpu_time_of_all()?.saturating_sub(all));
    server.wait_for_alert_evaluation(fixture).await?;
    let after = ReportedAlerts::read(&server).await?;
    server.end().await?;
    let took = Duration::from_millis(run.took_ms.context("the run has no end")?);
    println!("{:<12}{:>8}", "scanned", run.scanned);
    println!("{:<12}{:>8} of {}", "found", run.found, size.stuck());
    println!("{:<12}{:>8} of {}", "ended", run.ended, size.stuck());
    println!("{:<12}{:>8}", "failed", run.failed);
    println!("{:<12}{:>8}", "kept", run.kept);
    println!(
        "{:<12}{:>8} before the cleanup, {} after it",
        "firing",
        before.firing.len(),
        after.firing.len()
    );
    println!(
        "CPU meanwhile: {:.2} s of this process, {:.2} s of the whole machine\n",
        own.as_secs_f64(),
        all.as_secs_f64()
    );
    at_most("one cleanup", took.as_secs_f64(), TARGET_S, " s");
    // The measurement is void unless the cleanup did exactly what it should.
    fixture.check_ended_exactly_the_stuck(&sandboxes, &run).await?;
    before
        .ensure_equal(&ReportedAlerts::expected_before_cleanup(&sandboxes))
        .context("before the cleanup")?;
    after.ensure_equal(&ReportedAlerts::expected_after_cleanup(&sandboxes)).context("after the cleanup")?;
    ensure!(took.as_secs_f64() <= TARGET_S, "one cleanup took {:.2} s", took.as_secs_f64());
    Ok(())
}
