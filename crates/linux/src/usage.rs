//! Resource usage of an instance: counted by its cgroups, else by its keeper.

use std::time::Duration;

use pinfold_keeper_wire::ProcessUsage;
use pinfold_keeper_wire::{Request, Response};
use pinfold_lifecycle::ResourceUsage;

use crate::cgroup::CgroupUsage;
use crate::control::query;
use crate::paths::InstancePaths;
use crate::provider::LinuxProvider;

/// Time limit while the instance lives: a slow keeper can be asked again.
pub(crate) const USAGE_TIMEOUT: Duration = Duration::from_millis(200);
/// Time limit at the end of the instance: the keeper is asked for the last time, on a host that may be busy.
pub(crate) const FINAL_USAGE_TIMEOUT: Duration = Duration::from_secs(1);

/// Usage reported by a keeper. `None`: not reported, which is not zero.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct KeeperUsage {
    pub(crate) disk_bytes: Option<u64>,
    pub(crate) counted: Option<ProcessUsage>,
}

impl LinuxProvider {
    /// Usage so far. The keeper is asked only for figures that cgroups do not have. `None`: no figure is available.
    pub(crate) async fn usage_so_far(&self, paths: &InstancePaths) -> Option<ResourceUsage> {
        let groups = self.cgroups_of(paths).map(|groups| groups.usage()).unwrap_or_default();
        let suffices = groups.cpu_ms.is_some() && groups.memory_peak_bytes.is_some();
        let reported =
            if suffices { KeeperUsage::default() } else { keeper_usage(paths, USAGE_TIMEOUT).await };
        Some(merge(&groups, &reported)).filter(|used| *used != ResourceUsage::default())
    }
}

pub(crate) async fn keeper_usage(paths: &InstancePaths, within: Duration) -> KeeperUsage {
    match tokio::time::timeout(within, query(paths, &Request::Usage)).await {
        Ok(Ok(Response::Usage { disk, process_usage: counted })) => {
            KeeperUsage { disk_bytes: disk.map(|disk| disk.bytes_used), counted }
        }
        Ok(Ok(_) | Err(_)) | Err(_) => KeeperUsage::default(),
    }
}

/// Prefers the figures of cgroups, which count all processes together, and bytes read and written.
pub(crate) fn merge(groups: &CgroupUsage, reported: &KeeperUsage) -> ResourceUsage {
    ResourceUsage {
        cpu_ms: groups.cpu_ms.or(reported.counted.map(|it| it.cpu_ms)),
        memory_peak_bytes: groups.memory_peak_bytes.or(reported.counted.map(|it| it.memory_peak_bytes)),
        io_read_bytes: groups.io_read_bytes,
        io_written_bytes: groups.io_written_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeper_metrics_fill_gaps_of_cgroups_and_missing_values_stay_missing() {
        let counted = ProcessUsage { cpu_ms: 7, memory_peak_bytes: 9, ..ProcessUsage::default() };
        let reported = KeeperUsage { disk_bytes: None, counted: Some(counted) };
        let groups = CgroupUsage { cpu_ms: Some(3), ..CgroupUsage::default() };

        let used = merge(&groups, &reported);

        assert_eq!((used.cpu_ms, used.memory_peak_bytes, used.io_read_bytes), (Some(3), Some(9), None));
        assert_eq!(merge(&CgroupUsage::default(), &KeeperUsage::default()), ResourceUsage::default());
    }
}
