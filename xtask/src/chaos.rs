//! Fault injection around real sandboxes: a server under load with one fault per round, the walk through all
//! failpoints, and the killing of makers without a server.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::builds::{PRODUCT, kept_program};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many rounds
    #[arg(long, default_value_t = 32)]
    rounds: u64,
    /// The seed of the first round; it decides the fault, its moment and the load
    #[arg(long)]
    seed: Option<u64>,
    /// Kill processes that create sandboxes without a server, and let `pinfold reconcile` clean up
    #[arg(long, conflicts_with = "points")]
    makers: bool,
    /// Crash create, exec, cancel, stop and reconcile at each of their failpoints, and each recovering server too
    #[arg(long)]
    points: bool,
    /// Only one of these, by its name
    #[arg(long, requires = "points")]
    operation: Option<String>,
    /// Continue after a failed round
    #[arg(long)]
    go_on: bool,
    /// Where to put the store and the log of rounds that failed
    #[arg(long, value_name = "DIRECTORY")]
    keep: Option<PathBuf>,
}

/// Builds first, unlike the stages below.
pub(crate) fn run(options: &Options) -> Result<bool> {
    Ok(PRODUCT.make()? && inject(options)?)
}

fn inject(options: &Options) -> Result<bool> {
    let mut command = Command::new(kept_program("pinfold-chaos"));
    if options.points {
        command.arg("failpoints");
        command.args(options.operation.iter().flat_map(|operation| ["--operation", operation]));
        return succeeds(&mut command);
    }
    command.arg(if options.makers { "run" } else { "faults" }).arg("--pinfold").arg(kept_program("pinfold"));
    command.args(["--rounds", &options.rounds.to_string()]);
    if let Some(seed) = options.seed {
        command.args(["--seed", &seed.to_string()]);
    }
    if !options.makers {
        command.args(options.go_on.then_some("--go-on"));
        command.args(options.keep.iter().flat_map(|keep| ["--keep".into(), keep.clone()]));
    }
    succeeds(&mut command)
}

fn succeeds(command: &mut Command) -> Result<bool> {
    let status = command.status().with_context(|| format!("could not run {command:?}"))?;
    Ok(status.success())
}

/// As stages of the test run.
pub(crate) fn hundred_makers() -> Result<bool> {
    inject(&Options { makers: true, ..some(100) })
}

/// There are sixteen faults, in rotation: each fault that missed has a second round.
pub(crate) fn every_fault_twice() -> Result<bool> {
    inject(&some(32))
}

/// The operation with the fewest failpoints.
pub(crate) fn every_point_of_a_stop() -> Result<bool> {
    inject(&Options { points: true, operation: Some("stop".into()), ..some(0) })
}

fn some(rounds: u64) -> Options {
    Options { rounds, seed: None, makers: false, points: false, operation: None, go_on: false, keep: None }
}
