//! What the figures were measured on.

use std::fs;

use anyhow::{Context, Result};

pub(crate) fn print() -> Result<()> {
    let cores = std::thread::available_parallelism().context("could not count the cores")?;
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_else(|_| "unknown".into());
    let model = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = model
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .unwrap_or(": unknown");
    println!(
        "{cores} cores ({}), Linux {}, SQLite {}, WAL, synchronous=FULL",
        model.trim_start_matches(['\t', ' ', ':']),
        kernel.trim(),
        rusqlite::version()
    );
    Ok(())
}
