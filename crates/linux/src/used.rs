//! What a body has used: as its groups count it, and else as its keeper does.

use std::time::Duration;

use pinfold_keeper::used::Counted;
use pinfold_keeper::wire::{Request, Response};
use pinfold_lifecycle::Used;
use pinfold_provider::InstanceId;

use crate::cgroup::CgroupUsage;
use crate::control::ask;
use crate::places::Places;
use crate::provider::LinuxProvider;

/// A keeper that does not answer so soon is not waited for while it lives: it can be asked again.
pub(crate) const AT_ONCE: Duration = Duration::from_millis(200);
/// At its end it is asked for the last time, and a busy host may not give it its turn for a while.
pub(crate) const LAST_WORDS: Duration = Duration::from_secs(1);

/// What a keeper says of its body. None: it did not say, which is not the same as nothing.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Told {
    pub(crate) disk_bytes: Option<u64>,
    pub(crate) counted: Option<Counted>,
}

impl LinuxProvider {
    /// What a body has used so far. Its keeper is asked only where groups do not know. None: nobody could say.
    pub async fn used(&self, body: InstanceId) -> Option<Used> {
        let places = self.grounds.of(body);
        let groups = self.groups_of(&places).map(|groups| groups.usage()).unwrap_or_default();
        let suffices = groups.cpu_ms.is_some() && groups.memory_peak_bytes.is_some();
        let told = if suffices { Told::default() } else { told_by_keeper(&places, AT_ONCE).await };
        Some(best_of(&groups, &told)).filter(|used| *used != Used::default())
    }
}

pub(crate) async fn told_by_keeper(places: &Places, within: Duration) -> Told {
    match tokio::time::timeout(within, ask(places, &Request::Usage)).await {
        Ok(Ok(Response::Usage { disk, counted })) => {
            Told { disk_bytes: disk.map(|disk| disk.bytes_used), counted }
        }
        Ok(Ok(_) | Err(_)) | Err(_) => Told::default(),
    }
}

/// The groups know better: what several processes had at one moment, and what was read and written.
pub(crate) fn best_of(groups: &CgroupUsage, told: &Told) -> Used {
    Used {
        cpu_ms: groups.cpu_ms.or(told.counted.map(|it| it.cpu_ms)),
        memory_peak_bytes: groups.memory_peak_bytes.or(told.counted.map(|it| it.memory_peak_bytes)),
        io_read_bytes: groups.io_read_bytes,
        io_written_bytes: groups.io_written_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keeper_speaks_only_where_groups_are_silent_and_nobody_makes_figures_up() {
        let counted = Counted { cpu_ms: 7, memory_peak_bytes: 9, ..Counted::default() };
        let told = Told { disk_bytes: None, counted: Some(counted) };
        let groups = CgroupUsage { cpu_ms: Some(3), ..CgroupUsage::default() };

        let used = best_of(&groups, &told);

        assert_eq!((used.cpu_ms, used.memory_peak_bytes, used.io_read_bytes), (Some(3), Some(9), None));
        assert_eq!(best_of(&CgroupUsage::default(), &Told::default()), Used::default());
    }
}
