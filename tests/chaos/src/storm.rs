//! Rounds of a real server under load with one fault in each, every round in an enclosure of its own that nothing gets
//! out of.

mod blow;
mod client;
pub(crate) mod enclosed;
mod fault;
mod ground;
mod judge;
mod leftovers;
mod mix;
pub(crate) mod points;
pub(crate) mod round;
mod server;
mod strike;

use std::io::Read;
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::ValueEnum;
use pinfold_checker::{Patience, Stopwatch};

use crate::served::Guard;
use blow::Blow;
use fault::Fault;
use mix::Mix;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The program under test
    #[arg(long)]
    pinfold: Option<PathBuf>,
    #[arg(long, default_value_t = 32)]
    rounds: u64,
    /// The seed of the first round; each later one has the next
    #[arg(long, default_value_t = 20_261_116)]
    seed: u64,
    /// This fault in all rounds
    #[arg(long, value_enum)]
    fault: Option<Fault>,
    /// Leave out a guard of the server, to see whether that is noticed
    #[arg(long, value_enum)]
    without: Option<Guard>,
    /// Where to put the store and the log of rounds that failed
    #[arg(long)]
    keep: Option<PathBuf>,
    #[arg(long, default_value_t = 2)]
    side_by_side: usize,
    /// Go on after a round that failed
    #[arg(long)]
    go_on: bool,
}

/// A round that takes longer is ended, and has failed.
const LONGEST: Duration = Duration::from_secs(420);
/// The same for the walk.
const LONGEST_WALK: Duration = Duration::from_secs(5_400);

struct Storm<'a> {
    options: &'a Options,
    next: AtomicU64,
    failed: AtomicBool,
    mix: Mutex<Mix>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let begun = Stopwatch::start();
    let storm =
        Storm { options, next: AtomicU64::new(0), failed: AtomicBool::new(false), mix: Mutex::default() };
    std::thread::scope(|scope| {
        for _ in 0..options.side_by_side.max(1) {
            scope.spawn(|| storm.go_on());
        }
    });
    let mix = storm.mix.into_inner().ok().context("a round panicked")?;
    println!("{mix}in {} s", begun.elapsed().as_secs());
    let never_struck: Vec<_> = mix.never_struck().into_iter().map(Fault::name).collect();
    if !never_struck.is_empty() {
        println!("FAILED: rounds that show nothing, since it never struck: {}", never_struck.join(", "));
    }
    let is_good = !storm.failed.into_inner() && never_struck.is_empty();
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Storm<'_> {
    fn go_on(&self) {
        while self.options.go_on || !self.failed.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.options.rounds {
                return;
            }
            let seed = self.options.seed + number;
            let fault = self.options.fault.unwrap_or_else(|| Fault::of(seed));
            let begun = Stopwatch::start();
            let outcome = self.one(seed, fault);
            let is_good = matches!(outcome, Ok((true, _)));
            let told = outcome.map_or_else(|error| format!("{error:#}"), |(_, told)| told);
            println!("seed {seed} {} {}: {told}", fault.name(), if is_good { "held" } else { "FAILED" });
            if !is_good {
                self.failed.store(true, Ordering::Relaxed);
                println!("to see it again: cargo xtask chaos --rounds 1 --seed {seed}");
            }
            if let Ok(mut mix) = self.mix.lock() {
                mix.add(fault, told.parse::<Blow>().ok().as_ref(), is_good, begun.elapsed());
            }
        }
    }

    /// Whether it held, and what it has to say.
    fn one(&self, seed: u64, fault: Fault) -> Result<(bool, String)> {
        let directory = tempfile::Builder::new().prefix("pinfold-storm-").tempdir()?;
        let mut role =
            vec!["round".to_owned(), "--seed".into(), seed.to_string(), "--fault".into(), fault.name()];
        role.extend(["--directory".to_owned(), directory.path().display().to_string()]);
        let places = [("--pinfold", &self.options.pinfold), ("--keep", &self.options.keep)];
        for (name, place) in places {
            role.extend(place.iter().flat_map(|place| [name.to_owned(), place.display().to_string()]));
        }
        if let Some(guard) = self.options.without.and_then(|guard| guard.to_possible_value()) {
            role.extend(["--without".to_owned(), guard.get_name().to_owned()]);
        }
        let (is_good, mut told) = enclosed_within(&role, LONGEST)?;
        let left = leftovers::clear(directory.path());
        if !left.is_empty() {
            told.push_str(&format!("\n  left and cleared away: {left:?}"));
        }
        Ok((is_good && left.is_empty(), told))
    }
}

/// The walk along all points.
pub(crate) fn walk(operation: Option<points::Operation>) -> Result<ExitCode> {
    let directory = tempfile::Builder::new().prefix("pinfold-points-").tempdir()?;
    let mut role = vec!["walk".to_owned(), "--directory".into(), directory.path().display().to_string()];
    if let Some(operation) = operation.and_then(|operation| operation.to_possible_value()) {
        role.extend(["--operation".to_owned(), operation.get_name().to_owned()]);
    }
    let mut child =
        enclosed::command(&role)?.stdin(Stdio::null()).spawn().context("could not run `unshare`")?;
    let ended = Patience::of(LONGEST_WALK).until(|| child.try_wait().ok().flatten());
    if ended.is_none() {
        child.kill().context("could not end the enclosure")?;
        child.wait().context("could not wait for the enclosure")?;
    }
    let left = leftovers::clear(directory.path());
    left.iter().for_each(|left| println!("left and cleared away: {left}"));
    let is_good = ended.is_some_and(|status| status.success()) && left.is_empty();
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs a role of this program in an enclosure, and ends it if it takes too long. Whether it succeeded, and what it said.
pub(crate) fn enclosed_within(role: &[String], longest: Duration) -> Result<(bool, String)> {
    let mut child = enclosed::command(role)?
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("could not run `unshare`")?;
    let mut output = child.stdout.take().context("its output is not ours")?;
    let listener = std::thread::spawn(move || {
        let mut said = String::new();
        let _ = output.read_to_string(&mut said);
        said
    });
    let ended = Patience::of(longest).until(|| child.try_wait().ok().flatten());
    if ended.is_none() {
        // All of it dies with the first of it.
        child.kill().context("could not end the enclosure")?;
        child.wait().context("could not wait for the enclosure")?;
    }
    let said = listener.join().ok().context("its listener panicked")?;
    let said = said.trim_end().to_owned();
    match ended {
        Some(status) => Ok((status.success(), said)),
        None => Ok((false, format!("{said}\nnot over after {} s", longest.as_secs()))),
    }
}
