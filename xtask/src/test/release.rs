//! The stages that compute, with optimized programs.

use std::process::Command;

use anyhow::{Context, Result};

use crate::builds::{RELEASE, program};

pub(super) fn model_checker() -> Result<bool> {
    run("pinfold-model-check", &[])
}

pub(super) fn simulator() -> Result<bool> {
    run("pinfold-simulator", &["--seeds", "2000"])
}

fn run(name: &str, arguments: &[&str]) -> Result<bool> {
    let program = program(&RELEASE.programs()?, name)?;
    let status = Command::new(program).args(arguments).status();
    Ok(status.with_context(|| format!("could not run `{name}`"))?.success())
}
