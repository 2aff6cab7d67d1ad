//! Usage of the sandbox's storage, measured from inside, and whether it was full while an execution ran.

use std::io;

use rustix::fs::statvfs;
use serde::{Deserialize, Serialize};

use crate::wire::{Ended, EndedBy};

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
/// Assumed maximum write rate per millisecond.
const MAX_BYTES_PER_MS: u64 = 1 << 20;
const MAX_FILES_PER_MS: u64 = 50;

impl DiskUsage {
    pub(crate) fn measure() -> io::Result<Self> {
        // Ask for the filesystem statistics of the root (statvfs).
        let found = statvfs("/")?;
        Ok(Self {
            bytes: found.f_blocks.saturating_mul(found.f_frsize),
            bytes_used: found.f_blocks.saturating_sub(found.f_bfree).saturating_mul(found.f_frsize),
            bytes_left: found.f_bavail.saturating_mul(found.f_frsize),
            files: found.f_files,
            files_left: found.f_ffree,
        })
    }

    /// Whether the next write would fail.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let too_little =
            (self.bytes / FULL_BELOW_PART).clamp(*FULL_BELOW_BYTES.start(), *FULL_BELOW_BYTES.end());
        (self.bytes > 0 && self.bytes_left < too_little) || (self.files > 0 && self.files_left == 0)
    }

    /// Minimum time in which the remaining space can be filled.
    fn min_ms_until_full(&self) -> i64 {
        let last = |all: u64, left: u64, each_ms: u64| if all == 0 { u64::MAX } else { left / each_ms };
        let bytes = last(self.bytes, self.bytes_left, MAX_BYTES_PER_MS);
        let files = last(self.files, self.files_left, MAX_FILES_PER_MS);
        i64::try_from(bytes.min(files)).unwrap_or(i64::MAX)
    }
}

/// Checks the storage while an execution runs: a program may fill it, fail and delete its files quickly.
#[derive(Debug, Default)]
pub(crate) struct DiskWatch {
    next_check_ms: Option<i64>,
    last_full_ms: Option<i64>,
}

const MIN_CHECK_MS: i64 = 25;
const MAX_CHECK_MS: i64 = 1_000;

impl DiskWatch {
    pub(crate) fn check(&mut self, now_ms: i64, idle: bool) {
        self.next_check_ms = None;
        if idle {
            return;
        }
        // A failed check counts as not full. A check costs about a microsecond.
        let disk = DiskUsage::measure().unwrap_or_default();
        if disk.is_full() {
            self.last_full_ms = Some(now_ms);
        }
        let wait_ms = disk.min_ms_until_full().clamp(MIN_CHECK_MS, MAX_CHECK_MS);
        self.next_check_ms = Some(now_ms.saturating_add(wait_ms));
    }

    pub(crate) fn next_check_ms(&self) -> Option<i64> {
        self.next_check_ms
    }

    /// Attributes a failure to the disk limit if the storage was full while the execution ran.
    pub(crate) fn explain(&self, ended: Ended, started_ms: i64) -> Ended {
        let full = self.last_full_ms.is_some_and(|at| at >= started_ms);
        let by = match ended.by {
            EndedBy::Itself if full && ended.code != Some(0) => EndedBy::DiskLimit,
            by => by,
        };
        Ended { by, ..ended }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::LimitHits;

    const FAILED: Ended =
        Ended { by: EndedBy::Itself, code: Some(1), signal: None, limit_hits: LimitHits::NOTHING };

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

    #[test]
    fn a_full_disk_explains_only_failures_of_executions_that_ran_then() {
        let watch = DiskWatch { next_check_ms: None, last_full_ms: Some(5) };
        let succeeded = Ended { code: Some(0), ..FAILED };
        let killed = Ended { by: EndedBy::Kill, code: None, signal: Some(9), ..FAILED };

        assert_eq!(watch.explain(FAILED, 5).by, EndedBy::DiskLimit);
        assert_eq!(watch.explain(FAILED, 6).by, EndedBy::Itself);
        assert_eq!(watch.explain(succeeded, 5).by, EndedBy::Itself);
        assert_eq!(watch.explain(killed, 5).by, EndedBy::Kill);
    }
}
