//! Free resources of the host, compared with the reserve that must stay free. A value that cannot be measured counts
//! as insufficient. A shortage only refuses new sandboxes; it never ends existing ones.

use serde::{Deserialize, Serialize};

/// Resources of the host that must stay free. Zero disables the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostReserve {
    pub disk_mb: u64,
    pub memory_mb: u64,
    pub processes: u64,
}

/// Measured free resources. `None` means that the measurement failed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostHeadroom {
    pub disk_mb: Option<u64>,
    pub memory_mb: Option<u64>,
    pub processes: Option<u64>,
    /// Set if the filesystem cannot be written at all, as opposed to being full. Holds the evidence.
    pub unusable: Option<String>,
}

/// Result of deleting stale data, or of a dry run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct StaleDataCleanup {
    pub cleaned: u64,
    /// Too recent, not proven gone, or protected.
    pub skipped: u64,
    /// Bytes freed on disk. Database rows are not included, as their size is not known.
    pub bytes: u64,
}

impl StaleDataCleanup {
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            cleaned: self.cleaned.saturating_add(other.cleaned),
            skipped: self.skipped.saturating_add(other.skipped),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

/// A host resource that has a reserve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostResource {
    Disk,
    Memory,
    Processes,
}

/// Why the host accepts no new sandbox at present.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum HostShortage {
    #[error("the host is short of disk: {available_mb} MiB available and {needed_mb} needed")]
    LowDisk { available_mb: u64, needed_mb: u64, cleared: StaleDataCleanup },
    #[error("the host is short of memory: {available_mb} MiB available and {needed_mb} needed")]
    LowMemory { available_mb: u64, needed_mb: u64 },
    #[error("the host is short of processes: {available} available and {needed} needed")]
    LowProcesses { available: u64, needed: u64 },
    #[error("the free {what} of the host could not be measured")]
    Unmeasurable { what: String },
    #[error("the filesystem of the host cannot be written: {why}")]
    Unusable { why: String },
}

impl HostShortage {
    /// All labels that [`word`](Self::word) can return.
    pub const WORDS: [&str; 5] =
        ["host_disk", "host_memory", "host_processes", "host_unmeasurable", "host_unusable"];

    /// The label of this shortage in metrics and in API errors.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::LowDisk { .. } => "host_disk",
            Self::LowMemory { .. } => "host_memory",
            Self::LowProcesses { .. } => "host_processes",
            Self::Unmeasurable { .. } => "host_unmeasurable",
            Self::Unusable { .. } => "host_unusable",
        }
    }
}

impl HostHeadroom {
    /// Whether the free resources exceed the reserve. Disk is checked last, because the caller can react to it by
    /// deleting stale data.
    pub fn admit(&self, keep: &HostReserve, cleared: StaleDataCleanup) -> Result<(), HostShortage> {
        if let Some(why) = &self.unusable {
            return Err(HostShortage::Unusable { why: why.clone() });
        }
        if let Some(available_mb) = short(HostResource::Memory, self.memory_mb, keep.memory_mb)? {
            return Err(HostShortage::LowMemory { available_mb, needed_mb: keep.memory_mb });
        }
        if let Some(available) = short(HostResource::Processes, self.processes, keep.processes)? {
            return Err(HostShortage::LowProcesses { available, needed: keep.processes });
        }
        if let Some(available_mb) = short(HostResource::Disk, self.disk_mb, keep.disk_mb)? {
            return Err(HostShortage::LowDisk { available_mb, needed_mb: keep.disk_mb, cleared });
        }
        Ok(())
    }
}

/// Returns the free amount if it is below what is needed.
fn short(what: HostResource, left: Option<u64>, needed: u64) -> Result<Option<u64>, HostShortage> {
    match left {
        _ if needed == 0 => Ok(None),
        Some(left) => Ok((left < needed).then_some(left)),
        None => Err(HostShortage::Unmeasurable { what: what.word().to_owned() }),
    }
}

impl HostResource {
    fn word(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Memory => "memory",
            Self::Processes => "processes",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP: HostReserve = HostReserve { disk_mb: 100, memory_mb: 10, processes: 5 };

    fn plenty() -> HostHeadroom {
        HostHeadroom { disk_mb: Some(100), memory_mb: Some(10), processes: Some(5), unusable: None }
    }

    #[test]
    fn host_below_its_reserve_refuses_with_the_numbers() {
        let cleared = StaleDataCleanup { cleaned: 1, skipped: 2, bytes: 3 };
        let low_disk = HostHeadroom { disk_mb: Some(99), ..plenty() };
        let low_memory = HostHeadroom { memory_mb: Some(9), ..plenty() };
        let low_processes = HostHeadroom { processes: Some(0), ..plenty() };

        assert_eq!(plenty().admit(&KEEP, cleared), Ok(()));
        let expected = HostShortage::LowDisk { available_mb: 99, needed_mb: 100, cleared };
        assert_eq!(low_disk.admit(&KEEP, cleared), Err(expected));
        let expected = HostShortage::LowMemory { available_mb: 9, needed_mb: 10 };
        assert_eq!(low_memory.admit(&KEEP, cleared), Err(expected));
        let expected = HostShortage::LowProcesses { available: 0, needed: 5 };
        assert_eq!(low_processes.admit(&KEEP, cleared), Err(expected));
    }

    #[test]
    fn failed_measurement_refuses_unless_the_reserve_is_zero() {
        let nothing = HostHeadroom::default();

        assert!(matches!(
            nothing.admit(&KEEP, StaleDataCleanup::default()),
            Err(HostShortage::Unmeasurable { .. })
        ));
        assert_eq!(nothing.admit(&HostReserve::default(), StaleDataCleanup::default()), Ok(()));
    }

    #[test]
    fn unwritable_filesystem_is_distinguished_from_a_full_one() {
        let unusable = HostHeadroom { unusable: Some("read-only".into()), disk_mb: Some(0), ..plenty() };

        let refused = unusable.admit(&KEEP, StaleDataCleanup::default());

        assert_eq!(refused, Err(HostShortage::Unusable { why: "read-only".into() }));
    }

    #[test]
    fn every_label_is_listed() {
        // A new variant breaks this match and must be added to both lists.
        let position = |reason: &HostShortage| match reason {
            HostShortage::LowDisk { .. } => 0,
            HostShortage::LowMemory { .. } => 1,
            HostShortage::LowProcesses { .. } => 2,
            HostShortage::Unmeasurable { .. } => 3,
            HostShortage::Unusable { .. } => 4,
        };
        let all = [
            HostShortage::LowDisk { available_mb: 0, needed_mb: 1, cleared: StaleDataCleanup::default() },
            HostShortage::LowMemory { available_mb: 0, needed_mb: 1 },
            HostShortage::LowProcesses { available: 0, needed: 1 },
            HostShortage::Unmeasurable { what: "memory".into() },
            HostShortage::Unusable { why: "read-only".into() },
        ];

        assert_eq!(all.each_ref().map(HostShortage::word), HostShortage::WORDS);
        assert!(all.iter().enumerate().all(|(at, reason)| position(reason) == at));
    }
}
