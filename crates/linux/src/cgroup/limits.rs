//! Limits of the workload of an instance, and the files they are written to.

use super::detect::{Controller, Version};

/// Unset limits are not applied and cost nothing. Limits that [`super::Abilities`] reports as unavailable are left
/// out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CgroupLimits {
    /// All memory that the kernel charges, including page cache. Swap is off.
    pub memory_bytes: Option<u64>,
    /// Processes and threads.
    pub processes: Option<u64>,
    /// Thousandths of one core.
    pub cpu_millis: Option<u32>,
    /// CPU weight from 1 to 10,000; the default is 100.
    pub cpu_weight: Option<u32>,
    /// Count bytes read and written: not a limit, but it needs another cgroup in v1.
    pub count_io: bool,
}

/// A value for one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) file: &'static str,
    pub(super) value: String,
    /// Not every kernel has the file, and the limit holds without it.
    pub(super) may_be_missing: bool,
}

/// Default period of every kernel.
const CPU_PERIOD_US: u64 = 100_000;
/// Smallest quota that the kernel accepts.
const MIN_QUOTA_US: u64 = 1_000;

impl CgroupLimits {
    /// Memory is always counted: usage reports need it.
    pub(super) fn want(&self, controller: Controller) -> bool {
        match controller {
            Controller::Memory => true,
            Controller::Pids => self.processes.is_some(),
            Controller::Cpu => self.cpu_millis.is_some() || self.cpu_weight.is_some(),
            Controller::Io => self.count_io,
            // Present only without v2, which has both built in.
            Controller::Cpuacct | Controller::Freezer => true,
        }
    }

    /// Settings in the order in which they must be written.
    pub(super) fn settings(&self, version: Version, controller: Controller) -> Vec<Setting> {
        match (controller, version) {
            (Controller::Memory, Version::V1) => self.memory_bytes.map_or(vec![], memory_v1),
            (Controller::Memory, Version::V2) => self.memory_bytes.map_or(vec![], memory_v2),
            (Controller::Pids, _) => self.processes.map_or(vec![], |it| vec![setting("pids.max", it)]),
            (Controller::Cpu, Version::V1) => self.cpu_v1(),
            (Controller::Cpu, Version::V2) => self.cpu_v2(),
            (Controller::Io | Controller::Cpuacct | Controller::Freezer, _) => vec![],
        }
    }

    fn quota_us(&self) -> Option<u64> {
        let quota = u64::from(self.cpu_millis?) * CPU_PERIOD_US / 1000;
        Some(quota.max(MIN_QUOTA_US))
    }

    /// The default period of new cgroups is not written.
    fn cpu_v1(&self) -> Vec<Setting> {
        let quota = self.quota_us().map(|it| setting("cpu.cfs_quota_us", it));
        let shares = self.cpu_weight.map(|it| setting("cpu.shares", (u64::from(it) * 1024 / 100).max(2)));
        quota.into_iter().chain(shares).collect()
    }

    fn cpu_v2(&self) -> Vec<Setting> {
        let quota = self.quota_us().map(|it| setting("cpu.max", format!("{it} {CPU_PERIOD_US}")));
        let weight = self.cpu_weight.map(|it| setting("cpu.weight", it.clamp(1, 10_000)));
        quota.into_iter().chain(weight).collect()
    }
}

/// Memory plus swap gets the limit of memory, and nothing is swapped out while there is room.
fn memory_v1(bytes: u64) -> Vec<Setting> {
    vec![
        setting("memory.limit_in_bytes", bytes),
        Setting { may_be_missing: true, ..setting("memory.memsw.limit_in_bytes", bytes) },
        Setting { may_be_missing: true, ..setting("memory.swappiness", 0) },
    ]
}

/// A workload that lost one process to the OOM killer is unusable, so all of it is killed.
fn memory_v2(bytes: u64) -> Vec<Setting> {
    vec![
        setting("memory.max", bytes),
        Setting { may_be_missing: true, ..setting("memory.swap.max", 0) },
        Setting { may_be_missing: true, ..setting("memory.oom.group", 1) },
    ]
}

fn setting(file: &'static str, value: impl ToString) -> Setting {
    Setting { file, value: value.to_string(), may_be_missing: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: CgroupLimits = CgroupLimits {
        memory_bytes: Some(4096),
        processes: Some(7),
        cpu_millis: Some(1500),
        cpu_weight: Some(50),
        count_io: false,
    };

    fn written(version: Version) -> Vec<(&'static str, String)> {
        let controllers = [Controller::Memory, Controller::Pids, Controller::Cpu, Controller::Io];
        let settings = controllers.into_iter().flat_map(|it| LIMITS.settings(version, it));
        settings.map(|it| (it.file, it.value)).collect()
    }

    #[test]
    fn v2_limits_are_written_to_v2_files() {
        let expected = [
            ("memory.max", "4096"),
            ("memory.swap.max", "0"),
            ("memory.oom.group", "1"),
            ("pids.max", "7"),
            ("cpu.max", "150000 100000"),
            ("cpu.weight", "50"),
        ];
        assert_eq!(written(Version::V2), expected.map(|(file, value)| (file, value.to_owned())));
    }

    #[test]
    fn v1_limits_are_written_to_v1_files() {
        let expected = [
            ("memory.limit_in_bytes", "4096"),
            ("memory.memsw.limit_in_bytes", "4096"),
            ("memory.swappiness", "0"),
            ("pids.max", "7"),
            ("cpu.cfs_quota_us", "150000"),
            ("cpu.shares", "512"),
        ];
        assert_eq!(written(Version::V1), expected.map(|(file, value)| (file, value.to_owned())));
    }

    #[test]
    fn controllers_of_unset_limits_are_not_wanted() {
        let nothing = CgroupLimits::default();

        for controller in [Controller::Pids, Controller::Cpu, Controller::Io] {
            assert!(!nothing.want(controller));
        }
    }

    #[test]
    fn tiny_cpu_limit_becomes_the_smallest_quota() {
        let limits = CgroupLimits { cpu_millis: Some(1), ..CgroupLimits::default() };

        assert_eq!(limits.settings(Version::V1, Controller::Cpu), [setting("cpu.cfs_quota_us", 1000)]);
    }
}
