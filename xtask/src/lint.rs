//! Formatting and clippy, with warnings as errors.

use anyhow::Result;

use crate::cargo;

pub(crate) const FORMATTING: &[&str] = &["fmt", "--all", "--check"];
pub(crate) const CLIPPY: &[&str] =
    &["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];

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
