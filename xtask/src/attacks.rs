//! Runs hostile programs in real sandboxes. Built separately, because its feature that disables guards would
//! otherwise be enabled in every other program of the same build.

use anyhow::Result;

use crate::cargo;

const ATTACKS: &[&str] = &[
    "test",
    "--locked",
    "--package",
    "pinfold-attacks",
    "--features",
    "weakened",
    "--test",
    "attacks",
    "--",
];
pub(crate) const CLIPPY: &[&str] = &[
    "clippy",
    "--locked",
    "--package",
    "pinfold-attacks",
    "--features",
    "weakened",
    "--all-targets",
    "--",
    "-D",
    "warnings",
];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only the attacks whose names have one of these words in them
    names: Vec<String>,
}

/// Prints what was tried, how it was proved, and what held.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let mut arguments = ATTACKS.to_vec();
    arguments.extend(options.names.iter().map(String::as_str));
    cargo::succeeds(&arguments)
}
