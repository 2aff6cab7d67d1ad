//! `density`: a thousand idle sandboxes. How fast they start, what each takes, what they cost at rest, and how fast
//! all of them are ended.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::{StreamExt, TryStreamExt, stream};
use pinfold_bench_report::{Figures, at_most, cpu_time, cpu_time_of_all, memory, now};
use pinfold_lifecycle::{Cause, SandboxId};

use crate::Session;
use crate::host::{Host, LIMITS};
use crate::table::{print_figures, print_header, print_titles, ratio};

const FEW: usize = 10;
const CYCLES: usize = 100;
/// What the kernel keeps for sandboxes, by its own names.
const KINDS: [&str; 6] = ["AnonPages", "Shmem", "Slab", "KernelStack", "PageTables", "Percpu"];

/// The targets are for a thousand; fewer are held to their share.
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
    print_figures(&format!("create, ready, stop, gone beside {FEW}"), &beside_few);
    print_figures(&format!("create, ready, stop, gone beside {count}"), &beside_many);
    print_figures("list all of them", &listed);
    println!();
    let each = |kind: &str| {
        let read =
            |from: &std::collections::BTreeMap<String, i64>| from.get(kind).copied().unwrap_or(0) as f64;
        (read(&after) - read(&before)) / 1_024.0 / count.saturating_sub(FEW) as f64
    };
    for kind in KINDS {
        println!("{kind:<16}{:>8.3} MiB each", each(kind));
    }
    // Unlike the rest, what this process used does not suffer from what else the machine does.
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

/// What happens between two moments: how long it takes, and the CPU time of this process and of all.
struct Phase {
    begun: Instant,
    own: Duration,
    all: Duration,
}

struct Took {
    time: Duration,
    own: Duration,
    all: Duration,
}

impl Phase {
    fn begin() -> Result<Self> {
        Ok(Self { begun: now(), own: cpu_time(), all: cpu_time_of_all()? })
    }

    fn end(&self) -> Result<Took> {
        let all = cpu_time_of_all()?.saturating_sub(self.all);
        Ok(Took { time: self.begun.elapsed(), own: cpu_time() - self.own, all })
    }
}

/// All asked for at once; done when the last one passed its probes.
async fn start(host: &Host, count: usize) -> Result<Vec<SandboxId>> {
    stream::iter(0..count).map(|_| host.ready(LIMITS)).buffer_unordered(count.max(1)).try_collect().await
}

async fn stop(host: &Host, sandboxes: Vec<SandboxId>) -> Result<()> {
    let count = sandboxes.len().max(1);
    let stops = stream::iter(sandboxes).map(|id| host.stop(id, Cause::EvictedEmergency));
    stops.buffer_unordered(count).try_collect().await
}

async fn cycles(host: &Host) -> Result<Figures> {
    let mut figures = Figures::default();
    for _ in 0..CYCLES {
        let begun = now();
        let sandbox = host.ready(LIMITS).await?;
        host.stop(sandbox, Cause::StoppedByUser).await?;
        figures.add(begun.elapsed());
    }
    Ok(figures)
}

async fn list(host: &Host) -> Result<Figures> {
    let mut figures = Figures::default();
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
