//! What the figures were measured on, and what of it is used.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// Cores and kernel, in one line.
pub fn describe() -> Result<String> {
    let cores = std::thread::available_parallelism().context("could not count the cores")?;
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_else(|_| "unknown".into());
    let model = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = model.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown");
    Ok(format!("{cores} cores ({}), Linux {}", model.trim_start_matches(['\t', ' ', ':']), kernel.trim()))
}

/// What all threads of this process have used so far.
pub fn cpu_time() -> Result<Duration> {
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

/// The lines of `/proc/meminfo`, in KiB.
pub fn memory() -> Result<BTreeMap<String, i64>> {
    let text = fs::read_to_string("/proc/meminfo").context("could not read `/proc/meminfo`")?;
    Ok(text.lines().filter_map(line).collect())
}

fn line(line: &str) -> Option<(String, i64)> {
    let (name, value) = line.split_once(':')?;
    Some((name.to_owned(), value.split_whitespace().next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_memory_is_its_name_and_its_kib() {
        assert_eq!(line("MemAvailable:   24103 kB"), Some(("MemAvailable".to_owned(), 24_103)));
        assert_eq!(line("nonsense"), None);
    }

    #[test]
    fn a_process_that_works_has_used_time() {
        let before = cpu_time().unwrap();

        let sum: u64 = (0..5_000_000_u64).map(std::hint::black_box).sum();

        assert!(sum > 0 && cpu_time().unwrap() > before);
    }
}
