//! Runs the simulator in a release build.

use anyhow::Result;

use crate::cargo;

const SIMULATOR: &[&str] = &["run", "--release", "--locked", "--package", "pinfold-simulator", "--"];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many seeds to run
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// Run only this seed, and print its whole trace
    #[arg(long)]
    seed: Option<u64>,
    /// Disable this guard of the lifecycle, to see that the simulator notices
    #[arg(long)]
    without: Option<String>,
}

pub(crate) fn run(options: &Options) -> Result<bool> {
    let seeds = options.seeds.to_string();
    let seed = options.seed.map(|seed| seed.to_string());
    let mut arguments = SIMULATOR.to_vec();
    arguments.extend(["--seeds", &seeds]);
    if let Some(seed) = &seed {
        arguments.extend(["--seed", seed]);
    }
    if let Some(guard) = &options.without {
        arguments.extend(["--without", guard]);
    }
    cargo::succeeds(&arguments)
}
