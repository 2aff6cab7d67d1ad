//! Usage of the workload of an instance, and how often it hit a limit.

use super::detect::{Controller, Version};
use super::files;
use super::group::Group;
use super::instance::{InstanceCgroup, WORK};

/// Usage of the workload without the keeper. `None` where a figure is unavailable: the cgroup does not exist, or the
/// kernel does not count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CgroupUsage {
    pub cpu_ms: Option<u64>,
    pub memory_bytes: Option<u64>,
    pub memory_peak_bytes: Option<u64>,
    /// Processes and threads where the kernel counts them, as the limit does; else processes only.
    pub processes: Option<u64>,
    pub io_read_bytes: Option<u64>,
    pub io_written_bytes: Option<u64>,
}

/// Counters since the cgroups were created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LimitEvents {
    /// Processes that the kernel killed for memory.
    pub memory_kills: Option<u64>,
    /// How often the memory limit was reached, in most cases without harm. Newer kernels do not count it in v1
    /// where swap is off: then it stays zero.
    pub memory_reached: Option<u64>,
    /// Processes or threads that could not be made.
    pub pids_refused: Option<u64>,
}

impl InstanceCgroup {
    #[must_use]
    pub fn usage(&self) -> CgroupUsage {
        let (io_read_bytes, io_written_bytes) = self.io().unzip();
        CgroupUsage {
            cpu_ms: self.cpu_ms(),
            memory_bytes: self.memory("memory.usage_in_bytes", "memory.current"),
            memory_peak_bytes: self.memory("memory.max_usage_in_bytes", "memory.peak"),
            processes: self.process_count(),
            io_read_bytes,
            io_written_bytes,
        }
    }

    #[must_use]
    pub fn limit_events(&self) -> LimitEvents {
        let memory = self.work_with(Controller::Memory);
        let pids = self.work_with(Controller::Pids);
        let pids_refused = pids.and_then(|it| it.keyed("pids.events", "max"));
        let (memory_kills, memory_reached) = match memory {
            Some(it) if it.version == Version::V2 => v2_memory_breaches(&it),
            Some(it) => v1_memory_breaches(&it),
            None => (None, None),
        };
        LimitEvents { memory_kills, memory_reached, pids_refused }
    }

    /// v2 counts CPU time in every cgroup, even without controllers.
    fn cpu_ms(&self) -> Option<u64> {
        let v2 = self.v2_work().and_then(|it| it.keyed("cpu.stat", "usage_usec")).map(|us| us / 1000);
        v2.or_else(|| self.work_with(Controller::Cpuacct)?.number("cpuacct.usage").map(|ns| ns / 1_000_000))
    }

    fn memory(&self, v1_file: &str, v2_file: &str) -> Option<u64> {
        let work = self.work_with(Controller::Memory)?;
        work.number(match work.version {
            Version::V1 => v1_file,
            Version::V2 => v2_file,
        })
    }

    fn process_count(&self) -> Option<u64> {
        let counted = self.work_with(Controller::Pids).and_then(|it| it.number("pids.current"));
        counted.or_else(|| {
            let work = self.tracked()?.child(WORK);
            let listed = work.directory.exists().then(|| work.processes().ok())??;
            u64::try_from(listed.len()).ok()
        })
    }

    /// Bytes read and written.
    fn io(&self) -> Option<(u64, u64)> {
        let work = self.work_with(Controller::Io)?;
        match work.version {
            Version::V1 => work.text("blkio.throttle.io_service_bytes_recursive").map(|it| v1_io(&it)),
            Version::V2 => work.text("io.stat").map(|it| v2_io(&it)),
        }
    }
}

/// Where swap is counted, the limit on the sum of both is hit first.
fn v1_memory_breaches(work: &Group) -> (Option<u64>, Option<u64>) {
    let kills = work.keyed("memory.oom_control", "oom_kill");
    let with_swap = work.number("memory.memsw.failcnt").unwrap_or(0);
    (kills, work.number("memory.failcnt").map(|it| it + with_swap))
}

fn v2_memory_breaches(work: &Group) -> (Option<u64>, Option<u64>) {
    let Some(text) = work.text("memory.events") else { return (None, None) };
    (files::keyed(&text, "oom_kill"), files::keyed(&text, "max"))
}

impl Group {
    fn text(&self, file: &str) -> Option<String> {
        files::read(&self.file(file)).ok()
    }

    fn number(&self, file: &str) -> Option<u64> {
        self.text(file)?.trim().parse().ok()
    }

    fn keyed(&self, file: &str, key: &str) -> Option<u64> {
        files::keyed(&self.text(file)?, key)
    }
}

/// Lines like `8:0 Read 4096`.
fn v1_io(text: &str) -> (u64, u64) {
    let sum = |kind: &str| {
        let of_kind = |line: &str| {
            let mut words = line.split_whitespace().skip(1);
            (words.next()? == kind).then_some(words.next()?.parse::<u64>().ok()?)
        };
        text.lines().filter_map(of_kind).sum()
    };
    (sum("Read"), sum("Write"))
}

/// Lines like `8:0 rbytes=4096 wbytes=0 rios=1 wios=0 dbytes=0 dios=0`.
fn v2_io(text: &str) -> (u64, u64) {
    let sum = |key: &str| {
        let words = text.split_whitespace();
        words.filter_map(|it| it.strip_prefix(key)?.parse::<u64>().ok()).sum()
    };
    (sum("rbytes="), sum("wbytes="))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn io_is_summed_over_devices() {
        let v1 = "8:0 Read 10\n8:0 Write 1\n8:0 Total 11\n8:16 Read 5\nTotal 16\n";
        let v2 = "8:0 rbytes=10 wbytes=1 rios=3\n8:16 rbytes=5 wbytes=0 rios=1\n";

        assert_eq!(v1_io(v1), (15, 1));
        assert_eq!(v2_io(v2), (15, 1));
    }

    #[test]
    fn an_unused_disk_counts_zero() {
        assert_eq!(v1_io("Total 0\n"), (0, 0));
        assert_eq!(v2_io(""), (0, 0));
    }
}
