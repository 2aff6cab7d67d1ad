//! All of it in order: the server, sandboxes that stay, lives that come and go, looks from outside, the end of it all, and
//! what follows from what was seen.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::Options;
use crate::caller::{Caller, Door};
use crate::life;
use crate::load::Load;
use crate::outside::Outside;
use crate::pacer::Pacer;
use crate::plot;
use crate::processor::Processors;
use crate::quantity::Quantity;
use crate::record::{Record, Sample};
use crate::server::Server;
use crate::verdict::{Verdict, Windows};

const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Sandboxes that live through all of it, so that what keepers take is seen too.
const RESIDENTS: usize = 4;
/// Longer than anybody soaks.
const RESIDENTS_IDLE_MS: u64 = 20 * 3_600_000;
const TELL_EVERY: Duration = Duration::from_secs(60);

/// Says whether everything was at the end as it was at the mark.
pub(crate) async fn run(options: &Options) -> Result<bool> {
    let windows = Windows { mark: options.mark_minutes, end: options.minutes };
    ensure!(rustix::process::geteuid().is_root(), "only root sees all that a server has; run it as root");
    ensure!(options.rate > 0.0 && options.cpu > 0.0, "without lives there is nothing to see");
    ensure!(windows.length() * 2.0 < windows.end - windows.mark, "the end is too close to the mark");
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let mut server = Server::begin(&options.pinfold, options.retention_seconds)?;
    let mut outside = None;
    let load = Load::new();

    let watched = tokio::select! {
        watched = watch(options, &mut server, &mut outside, &load) => watched,
        _ = interrupted.recv() => Err(anyhow::anyhow!("interrupted")),
        _ = terminated.recv() => Err(anyhow::anyhow!("asked to end")),
    };
    let ended = server.end().await;
    let words = server.last_words();
    let left = outside.as_ref().map(Outside::left).transpose()?.unwrap_or_default();
    if let Some(outside) = outside.filter(|_| ended.is_err() || !left.is_empty()) {
        outside.clear();
    }
    drop(server);

    let record = watched.with_context(|| format!("the server's last words:\n{words}"))?;
    ended?;
    let nothing_grew = tell(options, windows, &record, &load)?;
    if !left.is_empty() {
        println!("left behind by the server:\n{}", left.join("\n"));
    }
    Ok(nothing_grew && left.is_empty() && load.failures().number == 0)
}

async fn watch(
    options: &Options,
    server: &mut Server,
    outside: &mut Option<Outside>,
    load: &Load,
) -> Result<Record> {
    let door = server.door().await?;
    let residents = settle_in(&door).await?;
    let first = residents.first().context("nobody lives here")?;
    let outside = outside.insert(Outside::of(server.id(), &server.data(), first)?).clone();
    println!("{} min at {}/s, on {}", options.minutes, options.rate, server.data().display());
    load.rush(&door).await?;

    let record = tokio::select! {
        broken = load.go_on(&door, Pacer::new(options.rate, options.cpu / 100.0)) => {
            broken?;
            bail!("the lives came to an end by themselves");
        }
        record = look(options, &outside, load) => record?,
    };
    let mut caller = Caller::at(&door).await?;
    for resident in &residents {
        life::delete(&mut caller, resident).await.context("a sandbox that was to stay is not there")?;
    }
    caller.hang_up().await;
    Ok(record)
}

async fn settle_in(door: &Door) -> Result<Vec<String>> {
    let mut caller = Caller::at(door).await?;
    let mut residents = Vec::new();
    for number in 0..RESIDENTS {
        let limits = json!({ "idle_ms": RESIDENTS_IDLE_MS });
        residents.push(life::create(&mut caller, &format!("resident-{number}"), limits).await?);
    }
    caller.hang_up().await;
    Ok(residents)
}

async fn look(options: &Options, outside: &Outside, load: &Load) -> Result<Record> {
    let begun = Instant::now();
    let mut record = Record::default();
    let mut ticks = interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    let (mut before, mut told) = ((begun, load.done(), Processors::read()?), begun);
    while begun.elapsed().as_secs_f64() < options.minutes * 60.0 {
        ticks.tick().await;
        let now = (Instant::now(), load.done(), Processors::read()?);
        let quiet = load.rest().await?;
        let seen = outside.clone();
        let mut values = tokio::task::spawn_blocking(move || seen.counts()).await??;
        drop(quiet);
        let seen = outside.clone();
        values.extend(tokio::task::spawn_blocking(move || seen.sizes()).await?);
        values.insert(Quantity::Rate, count(now.1 - before.1) / (now.0 - before.0).as_secs_f64());
        values.insert(Quantity::Busy, now.2.busy_since(before.2) * 100.0);
        before = now;
        let minutes = (now.0 - begun).as_secs_f64() / 60.0;
        record.samples.push(Sample { minutes, values });
        if told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            println!("{}", progress(&record, load));
        }
    }
    Ok(record)
}

fn progress(record: &Record, load: &Load) -> String {
    let Some(last) = record.samples.last() else { return String::new() };
    let of = |quantity: Quantity| last.values.get(&quantity).map(|value| quantity.shown(*value));
    let shown = [Quantity::Rate, Quantity::Busy, Quantity::ServerMemory, Quantity::Disk, Quantity::Store];
    let shown = shown.into_iter().map(|it| format!("{} {}", it.name(), of(it).unwrap_or_default()));
    let shown: Vec<String> = shown.collect();
    format!(
        "{:5.1} min, {} lives, {} failed; {}",
        last.minutes,
        load.done(),
        load.failures().number,
        shown.join(", ")
    )
}

/// Writes the plot and the numbers, and prints what follows.
fn tell(options: &Options, windows: Windows, record: &Record, load: &Load) -> Result<bool> {
    let verdicts = Quantity::ALL.map(|quantity| Verdict::of(record, quantity, windows));
    let verdicts: Vec<Verdict> = verdicts.into_iter().flatten().collect();
    let (lives, failures) = (load.done(), load.failures());
    let held = count(lives) / (windows.end * 60.0);
    let title = format!(
        "{lives} lives in {} min, {held:.1}/s of {}/s asked for, {} s of retention",
        windows.end, options.rate, options.retention_seconds
    );
    write(&options.out, &plot::svg(record, &verdicts, windows, &title))?;
    write(&options.out.with_extension("csv"), &record.csv())?;

    println!("{title}; {} failed", failures.number);
    if let Some(first) = failures.first {
        println!("the first that failed: {first}");
    }
    let at = format!("at {} min", windows.mark);
    println!("{:<38}{at:>14}{:>14}{:>14}", "", "at the end", "change");
    verdicts.iter().for_each(|verdict| println!("{}", verdict.line()));
    println!("plot: {}", options.out.display());
    let is_complete = verdicts.len() == Quantity::ALL.len();
    if !is_complete {
        println!("not everything was seen, both at the mark and at the end");
    }
    Ok(is_complete && verdicts.iter().all(Verdict::holds))
}

fn write(path: &Path, text: &str) -> Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    directory.map_or(Ok(()), fs::create_dir_all).context("could not make a directory for the plot")?;
    fs::write(path, text).with_context(|| format!("could not write `{}`", path.display()))
}

#[expect(clippy::cast_precision_loss, reason = "fewer lives than a float can count")]
fn count(lives: u64) -> f64 {
    lives as f64
}
