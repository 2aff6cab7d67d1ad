//! The whole run in order: server, resident sandboxes, load, samples, shutdown, report.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::Options;
use crate::connection::{Connection, ServerAddress};
use crate::cpu_time::Processors;
use crate::cycle;
use crate::load::Load;
use crate::pacer::Pacer;
use crate::plot;
use crate::quantity::Quantity;
use crate::record::{Record, Sample};
use crate::server::Server;
use crate::server_resources::ServerResources;
use crate::verdict::{Verdict, Windows};

const SAMPLE_INTERVAL: Duration = Duration::from_secs(5);
/// Sandboxes that live through the whole run, so that the keepers' memory is measured too.
const RESIDENTS: usize = 4;
/// Longer than any run.
const RESIDENTS_IDLE_MS: u64 = 20 * 3_600_000;
const PROGRESS_INTERVAL: Duration = Duration::from_secs(60);

/// Whether nothing grew, failed or was left behind.
pub(crate) async fn run(options: &Options) -> Result<bool> {
    let windows = Windows { baseline: options.baseline_minutes, end: options.minutes };
    ensure!(rustix::process::geteuid().is_root(), "only root sees all that a server has; run it as root");
    ensure!(options.rate > 0.0 && options.cpu > 0.0, "rate and CPU target must be positive");
    ensure!(windows.length() * 2.0 < windows.end - windows.baseline, "the end is too close to the baseline");
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let mut server = Server::start(&options.pinfold, options.retention_seconds)?;
    let mut resources = None;
    let load = Load::new();

    let watched = tokio::select! {
        watched = watch(options, &mut server, &mut resources, &load) => watched,
        _ = interrupted.recv() => Err(anyhow::anyhow!("interrupted")),
        _ = terminated.recv() => Err(anyhow::anyhow!("terminated")),
    };
    let ended = server.end().await;
    let log_tail = server.log_tail();
    let left = resources.as_ref().map(ServerResources::left).transpose()?.unwrap_or_default();
    if let Some(resources) = resources.filter(|_| ended.is_err() || !left.is_empty()) {
        resources.clear();
    }
    drop(server);

    let record = watched.with_context(|| format!("the end of the server's log:\n{log_tail}"))?;
    ended?;
    let nothing_grew = report(options, windows, &record, &load)?;
    if !left.is_empty() {
        println!("left behind by the server:\n{}", left.join("\n"));
    }
    Ok(nothing_grew && left.is_empty() && load.failures().number == 0)
}

async fn watch(
    options: &Options,
    server: &mut Server,
    resources: &mut Option<ServerResources>,
    load: &Load,
) -> Result<Record> {
    let address = server.address().await?;
    let residents = create_residents(&address).await?;
    let first = residents.first().context("there is no resident sandbox")?;
    let resources = resources.insert(ServerResources::of(server.id(), &server.data(), first)?).clone();
    println!("{} min at {}/s, on {}", options.minutes, options.rate, server.data().display());
    load.warm_up(&address).await?;

    let record = tokio::select! {
        broken = load.run(&address, Pacer::new(options.rate, options.cpu / 100.0)) => {
            broken?;
            bail!("the load ended by itself");
        }
        record = sample_until_end(options, &resources, load) => record?,
    };
    let mut connection = Connection::open(&address).await?;
    for resident in &residents {
        cycle::delete(&mut connection, resident).await.context("a resident sandbox is gone")?;
    }
    connection.close().await;
    Ok(record)
}

async fn create_residents(address: &ServerAddress) -> Result<Vec<String>> {
    let mut connection = Connection::open(address).await?;
    let mut residents = Vec::new();
    for number in 0..RESIDENTS {
        let limits = json!({ "idle_ms": RESIDENTS_IDLE_MS });
        residents.push(cycle::create(&mut connection, &format!("resident-{number}"), limits).await?);
    }
    connection.close().await;
    Ok(residents)
}

async fn sample_until_end(options: &Options, resources: &ServerResources, load: &Load) -> Result<Record> {
    let begun = Instant::now();
    let mut record = Record::default();
    let mut ticks = interval(SAMPLE_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    let (mut before, mut reported) = ((begun, load.done(), Processors::read()?), begun);
    while begun.elapsed().as_secs_f64() < options.minutes * 60.0 {
        ticks.tick().await;
        let now = (Instant::now(), load.done(), Processors::read()?);
        let quiet = load.pause().await?;
        let seen = resources.clone();
        let mut values = tokio::task::spawn_blocking(move || seen.counts()).await??;
        drop(quiet);
        let seen = resources.clone();
        values.extend(tokio::task::spawn_blocking(move || seen.sizes()).await?);
        values.insert(Quantity::Rate, count(now.1 - before.1) / (now.0 - before.0).as_secs_f64());
        values.insert(Quantity::Busy, now.2.busy_since(before.2) * 100.0);
        before = now;
        let minutes = (now.0 - begun).as_secs_f64() / 60.0;
        record.samples.push(Sample { minutes, values });
        if reported.elapsed() >= PROGRESS_INTERVAL {
            reported = Instant::now();
            println!("{}", progress(&record, load));
        }
    }
    Ok(record)
}

fn progress(record: &Record, load: &Load) -> String {
    let Some(last) = record.samples.last() else { return String::new() };
    let of = |quantity: Quantity| last.values.get(&quantity).map(|value| quantity.format(*value));
    let shown = [Quantity::Rate, Quantity::Busy, Quantity::ServerMemory, Quantity::Disk, Quantity::Store];
    let shown = shown.into_iter().map(|it| format!("{} {}", it.name(), of(it).unwrap_or_default()));
    let shown: Vec<String> = shown.collect();
    format!(
        "{:5.1} min, {} cycles, {} failed; {}",
        last.minutes,
        load.done(),
        load.failures().number,
        shown.join(", ")
    )
}

/// Writes the plot and the numbers, and prints the verdicts.
fn report(options: &Options, windows: Windows, record: &Record, load: &Load) -> Result<bool> {
    let verdicts = Quantity::ALL.map(|quantity| Verdict::of(record, quantity, windows));
    let verdicts: Vec<Verdict> = verdicts.into_iter().flatten().collect();
    let (cycles, failures) = (load.done(), load.failures());
    let held = count(cycles) / (windows.end * 60.0);
    let title = format!(
        "{cycles} cycles in {} min, {held:.1}/s of {}/s asked for, {} s of retention",
        windows.end, options.rate, options.retention_seconds
    );
    write(&options.out, &plot::svg(record, &verdicts, windows, &title))?;
    write(&options.out.with_extension("csv"), &record.csv())?;

    println!("{title}; {} failed", failures.number);
    if let Some(first) = failures.first {
        println!("the first that failed: {first}");
    }
    let at = format!("at {} min", windows.baseline);
    println!("{:<38}{at:>14}{:>14}{:>14}", "", "at the end", "change");
    verdicts.iter().for_each(|verdict| println!("{}", verdict.line()));
    println!("plot: {}", options.out.display());
    let is_complete = verdicts.len() == Quantity::ALL.len();
    if !is_complete {
        println!("some quantities have no sample at the baseline or at the end");
    }
    Ok(is_complete && verdicts.iter().all(Verdict::holds))
}

fn write(path: &Path, text: &str) -> Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    directory.map_or(Ok(()), fs::create_dir_all).context("could not make a directory for the plot")?;
    fs::write(path, text).with_context(|| format!("could not write `{}`", path.display()))
}

#[expect(clippy::cast_precision_loss, reason = "fewer cycles than a float can count")]
fn count(cycles: u64) -> f64 {
    cycles as f64
}
