//! Runs the soak test with the release build of the program.

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result};

use crate::cargo;

const BUILD: &[&str] =
    &["build", "--release", "--locked", "--package", "pinfold-cli", "--package", "pinfold-soak"];

#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Options {
    /// Options of the soak test, such as `--help`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Returns only on failure: the soak test replaces this process, so that it gets the signals sent to it.
pub(crate) fn run(options: &Options) -> Result<bool> {
    if !cargo::succeeds(BUILD)? {
        return Ok(false);
    }
    let programs = cargo::repository_root().join("target/release");
    let mut command = Command::new(programs.join("pinfold-soak"));
    command.arg("--pinfold").arg(programs.join("pinfold")).args(&options.arguments);
    let failed = command.current_dir(cargo::repository_root()).exec();
    Err(failed).with_context(|| format!("could not run {command:?}"))
}
