//! Runs the stages of a test run one after another and counts what passed, failed and was skipped.
//! A stage that fails does not keep the later ones from running: one run shows all there is to repair.

mod api;
mod http;
mod machine;
mod needs;
mod power;
mod prometheus;
mod skips;
mod stages;
mod tally;
mod v2;

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use anyhow::{Context, Result};

use crate::cargo;
pub(crate) use api::{Options as ApiOptions, run_with as run_api};
pub(crate) use power::{Options as PowerOptions, run_with as run_power};
pub(crate) use prometheus::run as run_prometheus;
use skips::Skips;
use stages::{STAGES, Stage, What, When};
use tally::Tally;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Also what takes longer; then a skipped test, or no test at all, is a failure
    #[arg(long, conflicts_with = "filter")]
    all: bool,
    /// Run only the tests that the test harness selects by these words
    #[arg(last = true)]
    filter: Vec<String>,
}

/// Says whether the whole run is good. Its last line of output is the count.
pub(crate) fn run(options: &Options) -> Result<bool> {
    needs::install_what_is_missing(options.all);

    let mut skips = Skips::start()?;
    let mut total = Tally::default();
    let mut harness_ran_tests = false;
    let mut failed_stages = Vec::new();
    for stage in STAGES.iter().filter(|stage| stage.is_wanted(options)) {
        println!("== {}", stage.name);
        let mut tally = stage.run(&options.filter, &skips);
        harness_ran_tests |= matches!(stage.what, What::Harness) && tally.ran() > 0;
        tally.move_to_skipped(skips.new_lines()?);
        if tally.failed > 0 {
            failed_stages.push(stage.name);
        }
        total.add(tally);
    }

    if !failed_stages.is_empty() {
        println!("failed: {}", failed_stages.join(", "));
    }
    for line in skips.lines() {
        println!("skipped: {line}");
    }
    let complete = total.skipped == 0 && harness_ran_tests;
    if options.all && !harness_ran_tests {
        println!("no test ran");
    }
    println!("{total}");
    Ok(total.failed == 0 && (complete || !options.all))
}

/// Runs only the stage on the emulated machine.
pub(crate) fn run_v2() -> Result<bool> {
    v2::run_alone()
}

impl Stage {
    /// A filter asks for some tests of the harness, and so for no other stage.
    fn is_wanted(&self, options: &Options) -> bool {
        if !options.filter.is_empty() {
            return matches!(self.what, What::Harness);
        }
        match self.when {
            When::Always => true,
            When::OnlyAll => options.all,
        }
    }

    /// A stage that could not even start has failed: the later ones, and the count, still follow.
    fn run(&self, filter: &[String], skips: &Skips) -> Tally {
        let outcome = match self.what {
            What::Harness => run_harness(HARNESS, filter, skips),
            What::CountedCargo(arguments) => run_harness(arguments, &[], skips),
            What::Cargo(arguments) => run_cargo(arguments, skips).map(Tally::of_one),
            What::Check(check) => check().map(Tally::of_one),
            What::Counted(count) => count(),
        };
        outcome.unwrap_or_else(|error| {
            println!("{}: {error:#}", self.name);
            Tally::of_one(false)
        })
    }
}

fn run_cargo(arguments: &[&str], skips: &Skips) -> Result<bool> {
    let status = cargo::command(arguments)
        .env(skips::VARIABLE, skips.path())
        .status()
        .with_context(|| format!("could not run `cargo {}`", arguments.join(" ")))?;
    Ok(status.success())
}

const HARNESS: &[&str] = &["test", "--workspace", "--locked", "--no-fail-fast", "--"];

/// Runs `cargo test`, shows its output as it comes and counts from it.
fn run_harness(arguments: &[&str], filter: &[String], skips: &Skips) -> Result<Tally> {
    let mut child = cargo::command(arguments)
        .args(filter)
        .env(skips::VARIABLE, skips.path())
        .stdout(Stdio::piped())
        .spawn()
        .context("could not run `cargo test`")?;

    let mut tally = Tally::default();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line.context("could not read what `cargo test` prints")?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            tally.add(Tally::from_harness_line(&line).unwrap_or_default());
        }
    }

    let status = child.wait().context("could not wait for `cargo test`")?;
    // A crate that does not compile, or a test program that dies, prints no result.
    if !status.success() && tally.failed == 0 {
        tally.failed = 1;
    }
    Ok(tally)
}
