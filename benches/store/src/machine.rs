//! What the figures were measured on.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

pub(crate) fn print() -> Result<()> {
    let cores = std::thread::available_parallelism().context("could not count the cores")?;
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_else(|_| "unknown".into());
    let model = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = model.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown");
    println!(
        "{cores} cores ({}), Linux {}, SQLite {}, WAL, synchronous=FULL",
        model.trim_start_matches(['\t', ' ', ':']),
        kernel.trim(),
        rusqlite::version()
    );
    Ok(())
}

/// What all threads of this process have used so far.
pub(crate) fn cpu_time() -> Result<Duration> {
    let mut used = Duration::ZERO;
    for thread in fs::read_dir("/proc/self/task").context("could not list the threads")? {
        let path = thread?.path().join("schedstat");
        // A thread may end meanwhile.
        let Ok(text) = fs::read_to_string(path) else {
            continue;
        };
        let nanoseconds = text.split(' ').next().and_then(|word| word.parse().ok());
        used += Duration::from_nanos(nanoseconds.unwrap_or(0));
    }
    Ok(used)
}
