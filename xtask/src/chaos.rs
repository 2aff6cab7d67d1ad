//! The killing of makers of real sandboxes, with the program as it is built for the tests.

use anyhow::{Context, Result};

use crate::cargo;

const BUILD: &[&str] = &["build", "--locked", "--package", "pinfold-cli", "--package", "pinfold-chaos"];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many makers are killed
    #[arg(long, default_value_t = 100)]
    rounds: u64,
    /// The seed of the first round
    #[arg(long)]
    seed: Option<u64>,
}

pub(crate) fn run(options: &Options) -> Result<bool> {
    if !cargo::succeeds(BUILD)? {
        return Ok(false);
    }
    let programs = programs()?;
    let mut command = std::process::Command::new(programs.join("pinfold-chaos"));
    command.arg("run").arg("--pinfold").arg(programs.join("pinfold"));
    command.args(["--rounds", &options.rounds.to_string()]);
    if let Some(seed) = options.seed {
        command.args(["--seed", &seed.to_string()]);
    }
    let status = command.status().with_context(|| format!("could not run {command:?}"))?;
    Ok(status.success())
}

/// As a stage of the test run.
pub(crate) fn hundred_rounds() -> Result<bool> {
    run(&Options { rounds: 100, seed: None })
}

/// Cargo puts what it builds beside what runs here.
fn programs() -> Result<std::path::PathBuf> {
    let own = std::env::current_exe().context("could not find this program's own file")?;
    Ok(own.parent().context("this program is nowhere")?.to_owned())
}
