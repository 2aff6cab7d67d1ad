//! What a keeper measures inside its sandbox.

use serde::{Deserialize, Serialize};

/// Usage of all current and past processes inside, except the keeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct ProcessUsage {
    pub cpu_ms: u64,
    /// Memory of current processes.
    pub memory_bytes: u64,
    /// The larger of one process's peak and the current sum. An earlier peak of several processes together is not known.
    pub memory_peak_bytes: u64,
    pub processes: u64,
}

/// Capacity and usage of the root filesystem inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct DiskUsage {
    pub bytes: u64,
    pub bytes_used: u64,
    /// Available bytes. Less than the free bytes where the filesystem reserves some.
    pub bytes_left: u64,
    /// Inodes. Zero, with zero left, where the filesystem does not count them.
    pub files: u64,
    pub files_left: u64,
}

/// Below this a disk counts as full. Writes fail before the last byte is used: ext4 allocates a large extent completely
/// or not at all. Small disks have a lower threshold, so that not every failure there is attributed to them.
const FULL_BELOW_BYTES: std::ops::RangeInclusive<u64> = 64 * 1024..=1 << 20;
const FULL_BELOW_PART: u64 = 32;
impl DiskUsage {
    /// Whether the next write would fail.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let too_little =
            (self.bytes / FULL_BELOW_PART).clamp(*FULL_BELOW_BYTES.start(), *FULL_BELOW_BYTES.end());
        (self.bytes > 0 && self.bytes_left < too_little) || (self.files > 0 && self.files_left == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_full_when_bytes_or_files_have_run_out() {
        let roomy =
            DiskUsage { bytes: 1 << 20, bytes_used: 0, bytes_left: 1 << 20, files: 10, files_left: 1 };

        assert!(!roomy.is_full());
        assert!(DiskUsage { bytes_left: 4096, ..roomy }.is_full());
        assert!(DiskUsage { files_left: 0, ..roomy }.is_full());
    }

    #[test]
    fn a_large_disk_is_full_at_a_higher_threshold_than_a_small_one() {
        let large = DiskUsage { bytes: 512 << 20, bytes_left: 512 * 1024, ..DiskUsage::default() };
        let small = DiskUsage { bytes: 4 << 20, ..large };

        assert!(large.is_full() && !small.is_full());
        assert!(!DiskUsage { bytes_left: 2 << 20, ..large }.is_full());
    }

    #[test]
    fn a_filesystem_that_counts_nothing_is_never_full() {
        assert!(!DiskUsage::default().is_full());
    }
}
