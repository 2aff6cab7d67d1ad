//! What everything inside has used, as process 1 can count it where no control group does.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::kernel;
use crate::marked::cpu_ms_of;
use crate::process::told;

/// Of all that ran and runs here, the keeper left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Counted {
    pub cpu_ms: u64,
    /// Of what runs now.
    pub memory_bytes: u64,
    /// The most that one process ever had, or all together now. What several had at an earlier moment is not known.
    pub memory_peak_bytes: u64,
    pub processes: u64,
}

impl Counted {
    /// Process 1 has waited for everything that ended, whoever left it behind; the rest is in `/proc`.
    pub(crate) fn look() -> Self {
        let mut counted = kernel::used_by_children();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let is_other = |name: &str| name.parse::<u32>().is_ok_and(|pid| pid != std::process::id());
        for entry in entries.filter(|entry| entry.file_name().to_str().is_some_and(is_other)) {
            counted.add(&entry.path());
        }
        counted.memory_peak_bytes = counted.memory_peak_bytes.max(counted.memory_bytes);
        counted
    }

    /// One that has just ended is not there any more, and is counted the next time.
    fn add(&mut self, process: &Path) {
        let Some(cpu_ms) = told(&process.join("stat")).and_then(|stat| cpu_ms_of(&stat)) else { return };
        let status = told(&process.join("status")).unwrap_or_default();
        self.processes += 1;
        self.cpu_ms += cpu_ms;
        self.memory_bytes += bytes_of(&status, "VmRSS:");
        self.memory_peak_bytes = self.memory_peak_bytes.max(bytes_of(&status, "VmHWM:"));
    }
}

/// Out of a line like `VmRSS:      1024 kB`. What has no memory has no such line.
fn bytes_of(status: &str, key: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0).saturating_mul(1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_by_its_key_and_is_nothing_where_there_is_no_line() {
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";

        assert_eq!(bytes_of(status, "VmRSS:"), 1 << 20);
        assert_eq!(bytes_of(status, "VmHWM:"), 2 << 20);
        assert_eq!(bytes_of("Name:\tzombie\n", "VmRSS:"), 0);
    }
}
