//! Formatting and clippy, with warnings as errors.

use anyhow::Result;

use crate::cargo;

pub(crate) const FORMATTING: &[&str] = &["fmt", "--all", "--check"];
pub(crate) const CLIPPY: &[&str] =
    &["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];

/// What only the feature `s3` compiles: its code in four crates, and the tests that need a server to run.
pub(crate) const CLIPPY_S3: &[&str] = &[
    "clippy",
    "--locked",
    "--package",
    "pinfold-logs",
    "--package",
    "pinfold-service",
    "--package",
    "pinfold-http",
    "--package",
    "pinfold-cli",
    "--features",
    "pinfold-cli/s3,pinfold-logs/s3",
    "--lib",
    "--bins",
    "--test",
    "s3",
    "--",
    "-D",
    "warnings",
];

/// Documentation without a broken link.
pub(crate) const DOCUMENTATION: &[&str] = &[
    "doc",
    "--workspace",
    "--no-deps",
    "--locked",
    "--keep-going",
    "--config",
    "build.rustdocflags=['-Dwarnings']",
];

/// Runs both, so that one call shows everything to fix.
pub(crate) fn run() -> Result<bool> {
    let mut failed = Vec::new();
    for (name, arguments) in [("formatting", FORMATTING), ("clippy", CLIPPY)] {
        if !cargo::succeeds(arguments)? {
            failed.push(name);
        }
    }
    if failed.is_empty() {
        println!("lint: nothing to repair");
    } else {
        println!("lint failed: {}", failed.join(", "));
    }
    Ok(failed.is_empty())
}
