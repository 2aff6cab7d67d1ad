//! Resource usage of all processes inside, summed by process 1 where no cgroup counts it.

use std::fs;
use std::path::Path;

use pinfold_keeper_wire::ProcessUsage;
use pinfold_procfs::{Stat, read_text};

use crate::syscalls;

/// Sums over reaped processes, all of which process 1 has reaped or inherited, and over `/proc`.
pub(crate) fn measure() -> ProcessUsage {
    let mut counted = syscalls::usage_of_children();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_other = |name: &str| name.parse::<u32>().is_ok_and(|pid| pid != std::process::id());
    for entry in entries.filter(|entry| entry.file_name().to_str().is_some_and(is_other)) {
        add(&mut counted, &entry.path());
    }
    counted.memory_peak_bytes = counted.memory_peak_bytes.max(counted.memory_bytes);
    counted
}

/// Adds a live process. One that just exited is counted with the reaped ones next time.
fn add(sum: &mut ProcessUsage, process: &Path) {
    let Ok(Some(stat)) = Stat::read_in(process) else { return };
    let status = read_text(&process.join("status")).unwrap_or_default();
    sum.processes += 1;
    sum.cpu_ms += stat.cpu_ms_with_reaped();
    sum.memory_bytes += bytes_of(&status, "VmRSS:");
    sum.memory_peak_bytes = sum.memory_peak_bytes.max(bytes_of(&status, "VmHWM:"));
}

/// Parses a line like `VmRSS:      1024 kB`. Zombies have no such line.
fn bytes_of(status: &str, key: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0).saturating_mul(1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_parsed_by_key_and_is_zero_without_a_line() {
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";

        assert_eq!(bytes_of(status, "VmRSS:"), 1 << 20);
        assert_eq!(bytes_of(status, "VmHWM:"), 2 << 20);
        assert_eq!(bytes_of("Name:\tzombie\n", "VmRSS:"), 0);
    }
}
