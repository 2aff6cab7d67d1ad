//! `cargo xtask bench store`: durable transitions per second and per sync for 1, 8 and 64 writers at once, next to
//! the same transitions committed one by one, in the same run.

#![allow(clippy::print_stdout, reason = "what it prints is what it is for")]

mod work;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use pinfold_bench_report::{at_least, cpu_time, describe, now};
use pinfold_store_sqlite::{InlineStore, SqliteStore, WriteCounts};
use work::Worker;

const RUNS: usize = 5;
const WRITERS: [usize; 3] = [1, 8, 64];
const WARM_UP: Duration = Duration::from_millis(300);
const MEASURED: Duration = Duration::from_millis(1_500);

const TARGET_RATIO: f64 = 2.5;
const TARGET_PER_SYNC: f64 = 8.0;

#[derive(Clone, Copy)]
struct Rate {
    per_second: f64,
    per_sync: f64,
    /// CPU time of all threads, the callers' too: it does not depend on other load.
    cpu_us: f64,
}

/// Counters at one moment.
struct CounterSnapshot {
    counts: WriteCounts,
    cpu: Duration,
}

impl CounterSnapshot {
    fn now(counts: WriteCounts) -> Self {
        Self { counts, cpu: cpu_time() }
    }
}

fn main() -> Result<()> {
    println!("{}, SQLite {}, WAL, synchronous=FULL", describe()?, rusqlite::version());
    println!(
        "{RUNS} runs of {} ms each after {} ms to warm up; every figure is the median",
        MEASURED.as_millis(),
        WARM_UP.as_millis()
    );
    println!(
        "syncs are counted by the store: one per commit and two per copy of the log into the database\n"
    );
    println!(
        "{:<24}{:>14}{:>17}{:>13}{:>15}",
        "", "transitions/s", "transitions/sync", "CPU us each", "to one by one"
    );

    // Interleaved, so that other load on the machine affects all of them alike.
    let mut alone = Vec::new();
    let mut together = vec![Vec::new(); WRITERS.len()];
    for _ in 0..RUNS {
        alone.push(measure(one_by_one)?);
        for (rates, writers) in together.iter_mut().zip(WRITERS) {
            rates.push(measure(|directory| at_once(directory, writers))?);
        }
    }

    let base = median(&alone);
    print_row("one by one, no threads", base, base);
    for (rates, writers) in together.iter().zip(WRITERS) {
        print_row(&format!("{writers} writing at once"), median(rates), base);
    }
    let most = median(together.last().context("no run")?);
    println!();
    at_least("64 writers against one by one", most.per_second / base.per_second, TARGET_RATIO, "x");
    at_least("transitions per sync at 64", most.per_sync, TARGET_PER_SYNC, "");
    Ok(())
}

/// A fresh store on the disk that holds the build, not on one in memory.
fn measure(run: impl FnOnce(&Path) -> Result<Rate>) -> Result<Rate> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let directory = tempfile::tempdir_in(target).context("could not make a directory beside the build")?;
    run(directory.path())
}

/// One caller, one transition per transaction and per sync, through the same code.
fn one_by_one(directory: &Path) -> Result<Rate> {
    let store = Arc::new(InlineStore::on_file(&directory.join("alone.db"), 1)?);
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let mut worker = Worker::new(store.clone(), 0, 64);
    runtime.block_on(async {
        worker.begin().await?;
        worker.work_for(WARM_UP).await?;
        let before = CounterSnapshot::now(store.counts());
        let (done, took) = worker.work_for(MEASURED).await?;
        Ok(rate(done, took, &before, &CounterSnapshot::now(store.counts())))
    })
}

fn at_once(directory: &Path, writers: usize) -> Result<Rate> {
    let store = Arc::new(SqliteStore::open(directory)?);
    let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
    runtime.block_on(async {
        let mut workers = Vec::new();
        for writer in 0..writers {
            let mut worker = Worker::new(store.clone(), writer, 64_usize.div_ceil(writers).max(4));
            worker.begin().await?;
            workers.push(worker);
        }
        let workers = all(workers, WARM_UP).await?.0;
        let before = CounterSnapshot::now(store.counts());
        let (_, done, took) = all(workers, MEASURED).await?;
        Ok(rate(done, took, &before, &CounterSnapshot::now(store.counts())))
    })
}

async fn all(workers: Vec<Worker>, during: Duration) -> Result<(Vec<Worker>, u64, Duration)> {
    let begun = now();
    let mut tasks = Vec::new();
    for mut worker in workers {
        tasks.push(tokio::spawn(async move {
            let done = worker.work_for(during).await.map(|(done, _)| done);
            (worker, done)
        }));
    }
    let (mut workers, mut sum) = (Vec::new(), 0);
    for task in tasks {
        let (worker, done) = task.await?;
        workers.push(worker);
        sum += done?;
    }
    Ok((workers, sum, begun.elapsed()))
}

#[allow(clippy::cast_precision_loss, reason = "counts of a few seconds")]
fn rate(done: u64, took: Duration, before: &CounterSnapshot, after: &CounterSnapshot) -> Rate {
    let commits = after.counts.commits - before.counts.commits;
    let checkpoints = after.counts.checkpoints - before.counts.checkpoints;
    Rate {
        per_second: done as f64 / took.as_secs_f64(),
        per_sync: done as f64 / (commits + 2 * checkpoints) as f64,
        cpu_us: (after.cpu - before.cpu).as_secs_f64() * 1e6 / done as f64,
    }
}

fn median(rates: &[Rate]) -> Rate {
    let middle = |figure: fn(&Rate) -> f64| {
        let mut figures: Vec<f64> = rates.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures[figures.len() / 2]
    };
    Rate {
        per_second: middle(|rate| rate.per_second),
        per_sync: middle(|rate| rate.per_sync),
        cpu_us: middle(|rate| rate.cpu_us),
    }
}

fn print_row(name: &str, rate: Rate, base: Rate) {
    let ratio = rate.per_second / base.per_second;
    let (per_second, per_sync, cpu_us) = (rate.per_second, rate.per_sync, rate.cpu_us);
    println!("{name:<24}{per_second:>14.0}{per_sync:>17.1}{cpu_us:>13.0}{ratio:>14.2}x");
}
