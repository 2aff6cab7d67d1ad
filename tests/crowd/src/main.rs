//! `cargo xtask bench cleanup`: a turn of cleanup over a crowd of real sandboxes, a fifth of them stuck. How many it
//! found and ended, and how long it took by its own record. It fails unless that was exactly what it should do, in time.

#![allow(clippy::print_stdout, reason = "what it prints is what it is for")]

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use pinfold_bench_report::{at_most, cpu_time, cpu_time_of_all, describe};
use pinfold_crowd::{Alerts, Ground, Pace, Size, gather};
use pinfold_linux::NurseryProgram;
use tokio::signal::unix::{SignalKind, signal};

/// The role in which this program is its own nursery.
const NURSERY: &str = "__nursery";
const TARGET_S: f64 = 10.0;
/// As a server has it.
const PACE: Pace = Pace(Duration::from_secs(1));

#[derive(Parser)]
#[command(name = "pinfold-crowd", about = "Cleans up a crowd of sandboxes, and says how that went")]
struct Arguments {
    #[command(subcommand)]
    role: Role,
}

#[derive(clap::Subcommand)]
enum Role {
    /// Measure one turn of cleanup
    Bench {
        /// Sandboxes that are at work
        #[arg(long, default_value_t = 160)]
        at_work: usize,
        /// Sandboxes that are stuck in each of the four ways
        #[arg(long, default_value_t = 10)]
        of_each: usize,
        /// Few sandboxes: to see that it works, not to quote
        #[arg(long)]
        quick: bool,
    },
    #[command(name = NURSERY, hide = true)]
    Nursery,
}

fn main() -> Result<()> {
    let size = match Arguments::parse().role {
        Role::Nursery => return Ok(pinfold_keeper::nursery::run()?),
        Role::Bench { quick: true, .. } => Size { at_work: 16, of_each: 1 },
        Role::Bench { at_work, of_each, quick: false } => {
            Size { at_work: at_work.max(1), of_each: of_each.max(1) }
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(bench(size))
}

async fn bench(size: Size) -> Result<()> {
    println!("{}; Pinfold {}", describe()?, env!("CARGO_PKG_VERSION"));
    println!("one scheduled turn of cleanup; its time is the one in its record\n");
    let nursery = NurseryProgram { program: std::env::current_exe()?, arguments: vec![NURSERY.into()] };
    // No host keeps that in memory, and it is short enough for the name of a socket.
    let data = tempfile::Builder::new().prefix("pinfold-bench-").tempdir_in("/var/tmp")?;
    let ground = Ground::begin(data, nursery, PACE).await?;
    let (mut interrupted, mut terminated) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let measured = tokio::select! {
        measured = measure(&ground, size) => measured,
        _ = interrupted.recv() => Err(anyhow::anyhow!("interrupted")),
        _ = terminated.recv() => Err(anyhow::anyhow!("terminated")),
    };
    let ended = ground.end().await;
    measured?;
    ended
}

async fn measure(ground: &Ground, size: Size) -> Result<()> {
    let crowd = gather(ground, size).await?;
    let served = crowd.grow_old(ground).await?;
    let before = Alerts::told_by(&served).await?;
    let (own, all) = (cpu_time(), cpu_time_of_all()?);
    let run = ground.first_turn(&served).await?;
    let (own, all) = (cpu_time() - own, cpu_time_of_all()?.saturating_sub(all));
    served.look(ground).await?;
    let after = Alerts::told_by(&served).await?;
    served.end().await?;
    let took = Duration::from_millis(run.took_ms.context("the run has no end")?);
    println!("{:<12}{:>8}", "scanned", run.scanned);
    println!("{:<12}{:>8} of {}", "found", run.found, size.stuck());
    println!("{:<12}{:>8} of {}", "ended", run.ended, size.stuck());
    println!("{:<12}{:>8}", "failed", run.failed);
    println!("{:<12}{:>8}", "kept", run.kept);
    println!("{:<12}{:>8} before the turn, {} after it", "firing", before.firing.len(), after.firing.len());
    println!(
        "CPU meanwhile: {:.2} s of this process, {:.2} s of the whole machine\n",
        own.as_secs_f64(),
        all.as_secs_f64()
    );
    at_most("one turn of cleanup", took.as_secs_f64(), TARGET_S, " s");
    // No figure counts if it did something else than it should.
    ground.has_ended_exactly_the_stuck(&crowd, &run).await?;
    before.are(&Alerts::expected_before_the_turn(&crowd)).context("before the turn")?;
    after.are(&Alerts::expected_after_the_turn(&crowd)).context("after the turn")?;
    ensure!(took.as_secs_f64() <= TARGET_S, "one turn of cleanup took {:.2} s", took.as_secs_f64());
    Ok(())
}
