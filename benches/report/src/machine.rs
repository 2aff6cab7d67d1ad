//! What the figures were measured on, and what of it is used.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::time::ClockId;

/// Cores and kernel, in one line.
pub fn describe() -> Result<String> {
    let cores = std::thread::available_parallelism().context("could not count the cores")?;
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_else(|_| "unknown".into());
    let model = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = model.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown");
    Ok(format!("{cores} cores ({}), Linux {}", model.trim_start_matches(['\t', ' ', ':']), kernel.trim()))
}

/// What all threads of this process have used so far, those that have ended too.
#[must_use]
pub fn cpu_time() -> Duration {
    let used = rustix::time::clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(used).unwrap_or_default()
}

/// CPU time used by the whole machine so far.
pub fn cpu_time_of_all() -> Result<Duration> {
    const TICK_MS: u64 = 10;
    let text = fs::read_to_string("/proc/stat").context("could not read `/proc/stat`")?;
    let ticks: Vec<u64> =
        text.lines().next().unwrap_or("").split_whitespace().filter_map(|word| word.parse().ok()).collect();
    // Two of them are times of rest.
    let busy = |&(at, _): &(usize, &u64)| (at < 7) && at != 3 && at != 4;
    let used: u64 = ticks.iter().enumerate().filter(busy).map(|(_, ticks)| ticks).sum();
    Ok(Duration::from_millis(used * TICK_MS))
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
        let before = cpu_time();

        let sum: u64 = (0..5_000_000_u64).map(std::hint::black_box).sum();

        assert!(sum > 0 && cpu_time() > before);
    }

    #[test]
    fn cpu_time_of_an_ended_thread_still_counts() {
        let before = cpu_time();
        let worked = std::thread::spawn(|| {
            let sum: u64 = (0..5_000_000_u64).map(std::hint::black_box).sum();
            (sum, cpu_time())
        });

        let (_, during) = worked.join().unwrap();

        assert!(before < during && during <= cpu_time());
    }

    #[test]
    fn cpu_time_of_the_machine_includes_this_process() {
        let (before, own) = (cpu_time_of_all().unwrap(), cpu_time());

        while cpu_time() - own < Duration::from_millis(100) {
            std::hint::black_box((0..100_000_u64).map(std::hint::black_box).sum::<u64>());
        }

        // The kernel counts by ticks.
        assert!(cpu_time_of_all().unwrap() - before >= Duration::from_millis(50));
    }
}
