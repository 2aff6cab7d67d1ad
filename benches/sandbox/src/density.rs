//! `density`: a thousand idle sandboxes: start rate, memory of each, idle CPU use, and stop rate.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::{StreamExt, TryStreamExt, stream};
use pinfold_bench_report::{Measurements, at_most, cpu_time, cpu_time_of_all, memory, now};
use pinfold_lifecycle::{Cause, SandboxId};

use crate::Session;
use crate::host::{Host, LIMITS};
use crate::table::{print_header, print_measurements, print_titles, ratio};

const FEW: usize = 10;
const CYCLES: usize = 100;
/// Kernel memory by `/proc/meminfo` names.
const KINDS: [&str; 6] = ["AnonPages", "Shmem", "Slab", "KernelStack", "PageTables", "Percpu"];

/// Targets for a thousand; fewer are held to their share.
const START_S: f64 = 10.0;
const STOP_S: f64 = 2.0;
const EACH_MIB: f64 = 1.0;
const GROWTH: f64 = 1.5;
const AT_REST_PERCENT: f64 = 2.0;
const LIST_MS: f64 = 20.0;

pub(crate) fn run(session: &Session) -> Result<()> {
    let host = Arc::new(session.runtime.block_on(Host::begin())?);
    let own = host.clone();
    let (count, quick) = (session.runs, session.quick);
    print_header(
        &format!(
            "{count} idle sandboxes with limits, each probed; memory is the change of the whole machine's, so that \
             everything is counted and whatever else runs on it too"
        ),
        session,
    )?;
    let measured = session.run(async move { measure(&own, count, quick).await });
    let ended = session.runtime.block_on(host.end());
    measured?;
    ended
}

#[expect(clippy::cast_precision_loss, reason = "counts of sandboxes and KiB")]
async fn measure(host: &Host, count: usize, quick: bool) -> Result<()> {
    let share = count as f64 / 1_000.0;
    let mut live = start(host, FEW).await?;
    let beside_few = cycles(host).await?;

    let before = settled_memory().await?;
    let starting = Phase::begin()?;
    live.extend(start(host, count.saturating_sub(FEW)).await?);
    let started = starting.end()?;
    let after = settled_memory().await?;

    let at_rest = cpu_at_rest(Duration::from_secs(if quick { 3 } else { 10 })).await;
    let listed = list(host).await?;
    let beside_many = cycles(host).await?;

    let stopping = Phase::begin()?;
    stop(host, live).await?;
    let stopped = stopping.end()?;

    print_titles("");
    print_measurements(&format!("create, ready, stop, gone beside {FEW}"), &beside_few);
    print_measurements(&format!("create, ready, stop, gone beside {count}"), &beside_many);
    print_measurements("list all of them", &listed);
    println!();
    let each = |kind: &str| {
        let read =
            |from: &std::collections::BTreeMap<String, i64>| from.get(kind).copied().unwrap_or(0) as f64;
        (read(&after) - read(&before)) / 1_024.0 / count.saturating_sub(FEW) as f64
    };
    for kind in KINDS {
        println!("{kind:<16}{:>8.3} MiB each", each(kind));
    }
    // Unlike the rest, this process's CPU time does not depend on other load.
    let each_ms = |used: Duration| used.as_secs_f64() * 1e3 / count as f64;
    for (what, took) in [("start", &started), ("stop", &stopped)] {
        println!(
            "CPU of a {what:<7}{:>8.3} ms each, of this process;{:>8.3} ms of the whole machine",
            each_ms(took.own),
            each_ms(took.all)
        );
    }
    println!();
    at_most(&format!("start of {count}"), started.time.as_secs_f64(), START_S * share, " s");
    at_most("memory of each, by MemAvailable", -each("MemAvailable"), EACH_MIB, " MiB");
    at_most("this process at rest, of one core", at_rest * 100.0, AT_REST_PERCENT, "%");
    at_most("list, p99", listed.p99().as_secs_f64() * 1e3, LIST_MS, " ms");
    let growth = ratio(beside_many.p50(), beside_few.p50());
    at_most(&format!("create and stop beside {count} to beside {FEW}, p50"), growth, GROWTH, "x");
    at_most(
        &format!("emergency stop of {count} with receipts"),
        stopped.time.as_secs_f64(),
        STOP_S * share,
        " s",
    );
    Ok(())
}

/// The duration of a phase, and the CPU time of this process and of all.
struct Phase {
    begun: Instant,
    own: Duration,
    all: Duration,
}

struct PhaseCost {
    time: Duration,
    own: Duration,
    all: Duration,
}

impl Phase {
    fn begin() -> Result<Self> {
        Ok(Self { begun: now(), own: cpu_time(), all: cpu_time_of_all()? })
    }

    fn end(&self) -> Result<PhaseCost> {
        let all = cpu_time_of_all()?.saturating_sub(self.all);
        Ok(PhaseCost { time: self.begun.elapsed(), own: cpu_time() - self.own, all })
    }
}

/// Requests all at once; done when the last one is ready.
async fn start(host: &Host, count: usize) -> Result<Vec<SandboxId>> {
    stream::iter(0..count).map(|_| host.ready(LIMITS)).buffer_unordered(count.max(1)).try_collect().await
}

async fn stop(host: &Host, sandboxes: Vec<SandboxId>) -> Result<()> {
    let count = sandboxes.len().max(1);
    let stops = stream::iter(sandboxes).map(|id| host.stop(id, Cause::EvictedEmergency));
    stops.buffer_unordered(count).try_collect().await
}

async fn cycles(host: &Host) -> Result<Measurements> {
    let mut figures = Measurements::default();
    for _ in 0..CYCLES {
        let begun = now();
        let sandbox = host.ready(LIMITS).await?;
        host.stop(sandbox, Cause::StoppedByUser).await?;
        figures.add(begun.elapsed());
    }
    Ok(figures)
}

async fn list(host: &Host) -> Result<Measurements> {
    let mut figures = Measurements::default();
    for _ in 0..100 {
        let begun = now();
        host.present().await?;
        figures.add(begun.elapsed());
    }
    Ok(figures)
}

/// The middle one of some, since the kernel counts late.
async fn settled_memory() -> Result<std::collections::BTreeMap<String, i64>> {
    let mut taken = Vec::new();
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        taken.push(memory()?);
    }
    taken.sort_by_key(|memory| memory.get("MemAvailable").copied());
    Ok(taken.swap_remove(2))
}

/// The share of one core.
async fn cpu_at_rest(during: Duration) -> f64 {
    let (begun, before) = (now(), cpu_time());
    tokio::time::sleep(during).await;
    (cpu_time() - before).as_secs_f64() / begun.elapsed().as_secs_f64()
}
