//! Runs seeds, reports the first one that violates an invariant, and says how to replay it.

#![allow(clippy::print_stdout, reason = "the program prints its results")]

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use clap::Parser;
use pinfold_lifecycle::{Guard, Guards};
use pinfold_simulator::{Run, run};

/// The real engine and store under a virtual clock, with everything decided by the seed.
#[derive(Parser)]
struct Options {
    /// Number of seeds to run.
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// First seed.
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Run only this seed, and print its whole trace.
    #[arg(long)]
    seed: Option<u64>,
    /// Remove this guard of the lifecycle, to see that the simulator notices.
    #[arg(long)]
    without: Option<String>,
}

fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    let guards = match &options.without {
        Some(name) => Guards::without(parse_guard(name)?),
        None => Guards::default(),
    };
    match options.seed {
        Some(seed) => replay(seed, guards),
        None => run_all(&options, guards),
    }
}

fn parse_guard(name: &str) -> anyhow::Result<Guard> {
    let rows = || Guard::ALL.iter().map(|guard| format!("{guard:?}")).collect::<Vec<_>>().join(", ");
    let guard = Guard::ALL.into_iter().find(|guard| format!("{guard:?}") == name);
    guard.with_context(|| format!("unknown guard `{name}`; known are {}", rows()))
}

fn replay(seed: u64, guards: Guards) -> anyhow::Result<ExitCode> {
    let run = run(seed, guards, true)?;
    for line in &run.trace {
        println!("{line}");
    }
    println!("seed {seed}: {} commits, history {:016x}", run.commits, run.hash);
    if let Some(violation) = run.violation {
        println!("seed {seed} violates an invariant: {violation}");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

fn run_all(options: &Options, guards: Guards) -> anyhow::Result<ExitCode> {
    let next = AtomicU64::new(options.from);
    let (commits, hash) = (AtomicU64::new(0), AtomicU64::new(0));
    let end = options.from + options.seeds;
    let broken: Mutex<Vec<Run>> = Mutex::default();
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| -> anyhow::Result<()> {
        let work = || -> anyhow::Result<()> {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= end {
                    return Ok(());
                }
                let run = run(seed, guards, false).with_context(|| format!("seed {seed}"))?;
                commits.fetch_add(run.commits, Ordering::Relaxed);
                // The sum does not depend on the order of the workers.
                hash.fetch_add(run.hash, Ordering::Relaxed);
                if run.violation.is_some() {
                    // One failing seed is enough, so the remaining ones are skipped.
                    next.store(end, Ordering::Relaxed);
                    broken.lock().map_err(|_| anyhow::anyhow!("a worker panicked"))?.push(run);
                }
            }
        };
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            worker.join().map_err(|_| anyhow::anyhow!("a worker panicked"))??;
        }
        Ok(())
    })?;
    let broken = broken.into_inner().map_err(|_| anyhow::anyhow!("a worker panicked"))?;
    Ok(report(options, &broken, commits.into_inner(), hash.into_inner()))
}

fn report(options: &Options, broken: &[Run], commits: u64, hash: u64) -> ExitCode {
    let Some(first) = broken.iter().min_by_key(|run| run.seed) else {
        println!(
            "simulator: {} seeds, {commits} commits, history {hash:016x}, no invariant violated",
            options.seeds
        );
        return ExitCode::SUCCESS;
    };
    let without = options.without.as_ref().map(|guard| format!(" --without {guard}")).unwrap_or_default();
    let violation = first.violation.clone().unwrap_or_default();
    println!("seed {} violates an invariant after {} commits: {violation}", first.seed, first.commits);
    println!("replay it with: cargo xtask sim --seed {}{without}", first.seed);
    ExitCode::FAILURE
}
