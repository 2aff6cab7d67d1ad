//! Rounds of a real server under load with one fault each. Every round runs in its own pid and mount namespaces,
//! so that nothing outlives it.

mod client;
pub(crate) mod failpoint_walk;
mod fault;
mod fixture;
mod inject;
mod injection;
pub(crate) mod isolated;
mod leftovers;
pub(crate) mod round;
mod server;
mod summary;
mod verifier;

use std::io::Read;
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::ValueEnum;
use pinfold_checker::{Deadline, Stopwatch};

use crate::failpoint_server::Guard;
use fault::Fault;
use injection::Injection;
use summary::Summary;

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
    /// Leave out a guard of the server, to see whether the checks notice
    #[arg(long, value_enum)]
    without: Option<Guard>,
    /// Where to put the store and the log of rounds that failed
    #[arg(long)]
    keep: Option<PathBuf>,
    #[arg(long, default_value_t = 2)]
    side_by_side: usize,
    /// Continue after a failed round
    #[arg(long)]
    go_on: bool,
}

/// A round that takes longer is killed and counts as failed.
const LONGEST: Duration = Duration::from_secs(420);
/// The same for the failpoint walk.
const LONGEST_WALK: Duration = Duration::from_secs(5_400);

struct FaultRounds<'a> {
    options: &'a Options,
    next: AtomicU64,
    failed: AtomicBool,
    summary: Mutex<Summary>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let begun = Stopwatch::start();
    let rounds = FaultRounds {
        options,
        next: AtomicU64::new(0),
        failed: AtomicBool::new(false),
        summary: Mutex::default(),
    };
    std::thread::scope(|scope| {
        for _ in 0..options.side_by_side.max(1) {
            scope.spawn(|| rounds.go_on());
        }
    });
    let summary = rounds.summary.into_inner().ok().context("a round panicked")?;
    println!("{summary}in {} s", begun.elapsed().as_secs());
    let never_struck: Vec<_> = summary.never_injected().into_iter().map(Fault::name).collect();
    if !never_struck.is_empty() {
        println!(
            "FAILED: rounds that prove nothing, since these faults were never injected: {}",
            never_struck.join(", ")
        );
    }
    let is_good = !rounds.failed.into_inner() && never_struck.is_empty();
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl FaultRounds<'_> {
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
            let output = outcome.map_or_else(|error| format!("{error:#}"), |(_, output)| output);
            println!("seed {seed} {} {}: {output}", fault.name(), if is_good { "passed" } else { "FAILED" });
            if !is_good {
                self.failed.store(true, Ordering::Relaxed);
                println!("to reproduce: cargo xtask chaos --rounds 1 --seed {seed}");
            }
            if let Ok(mut summary) = self.summary.lock() {
                summary.add(fault, output.parse::<Injection>().ok().as_ref(), is_good, begun.elapsed());
            }
        }
    }

    /// Whether the round passed, and its output.
    fn one(&self, seed: u64, fault: Fault) -> Result<(bool, String)> {
        let directory = tempfile::Builder::new().prefix("pinfold-rounds-").tempdir()?;
        let mut role =
            vec!["round".to_owned(), "--seed".into(), seed.to_string(), "--fault".into(), fault.name()];
        role.extend(["--directory".to_owned(), directory.path().display().to_string()]);
        let paths = [("--pinfold", &self.options.pinfold), ("--keep", &self.options.keep)];
        for (name, path) in paths {
            role.extend(path.iter().flat_map(|path| [name.to_owned(), path.display().to_string()]));
        }
        if let Some(guard) = self.options.without.and_then(|guard| guard.to_possible_value()) {
            role.extend(["--without".to_owned(), guard.get_name().to_owned()]);
        }
        let (is_good, mut output) = run_isolated(&role, LONGEST)?;
        let left = leftovers::clear(directory.path());
        if !left.is_empty() {
            output.push_str(&format!("\n  left behind, now removed: {left:?}"));
        }
        Ok((is_good && left.is_empty(), output))
    }
}

/// Runs the failpoint walk.
pub(crate) fn walk(operation: Option<failpoint_walk::Operation>) -> Result<ExitCode> {
    let directory = tempfile::Builder::new().prefix("pinfold-points-").tempdir()?;
    let mut role =
        vec!["walk-isolated".to_owned(), "--directory".into(), directory.path().display().to_string()];
    if let Some(operation) = operation.and_then(|operation| operation.to_possible_value()) {
        role.extend(["--operation".to_owned(), operation.get_name().to_owned()]);
    }
    let mut child =
        isolated::command(&role)?.stdin(Stdio::null()).spawn().context("could not run `unshare`")?;
    let ended = Deadline::after(LONGEST_WALK).poll(|| child.try_wait().ok().flatten());
    if ended.is_none() {
        child.kill().context("could not kill the round")?;
        child.wait().context("could not wait for the round")?;
    }
    let left = leftovers::clear(directory.path());
    left.iter().for_each(|left| println!("left behind, now removed: {left}"));
    let is_good = ended.is_some_and(|status| status.success()) && left.is_empty();
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs a role of this program in its own namespaces, and kills it after `longest`. Returns whether it succeeded,
/// and its output.
pub(crate) fn run_isolated(role: &[String], longest: Duration) -> Result<(bool, String)> {
    let mut child = isolated::command(role)?
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("could not run `unshare`")?;
    let mut output = child.stdout.take().context("no output pipe")?;
    let listener = std::thread::spawn(move || {
        let mut said = String::new();
        let _ = output.read_to_string(&mut said);
        said
    });
    let ended = Deadline::after(longest).poll(|| child.try_wait().ok().flatten());
    if ended.is_none() {
        // Killing process 1 kills the whole pid namespace.
        child.kill().context("could not kill the round")?;
        child.wait().context("could not wait for the round")?;
    }
    let said = listener.join().ok().context("its listener panicked")?;
    let said = said.trim_end().to_owned();
    match ended {
        Some(status) => Ok((status.success(), said)),
        None => Ok((false, format!("{said}\nnot finished after {} s", longest.as_secs()))),
    }
}
