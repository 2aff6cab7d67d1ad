//! How full the sandbox's own storage is, seen from inside, and whether it ever was full.

use std::io;

use rustix::fs::statvfs;
use serde::{Deserialize, Serialize};

use crate::wire::{Ended, EndedBy};

/// What the root inside has and uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Disk {
    pub bytes: u64,
    pub bytes_used: u64,
    /// Less than what is not used, where the filesystem keeps something for itself.
    pub bytes_left: u64,
    /// None, and none left, where the filesystem does not count them.
    pub files: u64,
    pub files_left: u64,
}

/// Writes fail while something is still left: ext4 gives room for a large piece at once or not at all. Of a small disk
/// it is less, so that not every failure there is blamed on it.
const LEFT_BYTES: std::ops::RangeInclusive<u64> = 64 * 1024..=1 << 20;
const LEFT_PART: u64 = 32;
/// What can be written in a millisecond, at the most that is likely.
const BYTES_EACH_MS: u64 = 1 << 20;
const FILES_EACH_MS: u64 = 50;

impl Disk {
    pub(crate) fn look() -> io::Result<Self> {
        let found = statvfs("/")?;
        Ok(Self {
            bytes: found.f_blocks.saturating_mul(found.f_frsize),
            bytes_used: found.f_blocks.saturating_sub(found.f_bfree).saturating_mul(found.f_frsize),
            bytes_left: found.f_bavail.saturating_mul(found.f_frsize),
            files: found.f_files,
            files_left: found.f_ffree,
        })
    }

    /// Whatever is written next does not fit.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let too_little = (self.bytes / LEFT_PART).clamp(*LEFT_BYTES.start(), *LEFT_BYTES.end());
        (self.bytes > 0 && self.bytes_left < too_little) || (self.files > 0 && self.files_left == 0)
    }

    /// How long it takes to fill what is left, at the least.
    fn lasts_ms(&self) -> i64 {
        let last = |all: u64, left: u64, each_ms: u64| if all == 0 { u64::MAX } else { left / each_ms };
        let bytes = last(self.bytes, self.bytes_left, BYTES_EACH_MS);
        let files = last(self.files, self.files_left, FILES_EACH_MS);
        i64::try_from(bytes.min(files)).unwrap_or(i64::MAX)
    }
}

/// Looks at the storage while something runs: who writes to a full one may fail, tidy up and be gone again soon.
#[derive(Debug, Default)]
pub(crate) struct DiskWatch {
    next_look_ms: Option<i64>,
    last_full_ms: Option<i64>,
}

const SOONEST_LOOK_MS: i64 = 25;
const LATEST_LOOK_MS: i64 = 1_000;

impl DiskWatch {
    pub(crate) fn look(&mut self, now_ms: i64, idle: bool) {
        self.next_look_ms = None;
        if idle {
            return;
        }
        // A look that fails says nothing about how full it is. Each one costs about a microsecond.
        let disk = Disk::look().unwrap_or_default();
        if disk.is_full() {
            self.last_full_ms = Some(now_ms);
        }
        let wait_ms = disk.lasts_ms().clamp(SOONEST_LOOK_MS, LATEST_LOOK_MS);
        self.next_look_ms = Some(now_ms.saturating_add(wait_ms));
    }

    pub(crate) fn next_look_ms(&self) -> Option<i64> {
        self.next_look_ms
    }

    /// An execution that failed by itself, after the storage was full in its time, failed for that.
    pub(crate) fn explain(&self, ended: Ended, began_ms: i64) -> Ended {
        let full = self.last_full_ms.is_some_and(|at| at >= began_ms);
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
    use crate::wire::Survived;

    const FAILED: Ended =
        Ended { by: EndedBy::Itself, code: Some(1), signal: None, survived: Survived::NOTHING };

    #[test]
    fn a_disk_is_full_when_bytes_or_files_have_run_out() {
        let roomy = Disk { bytes: 1 << 20, bytes_used: 0, bytes_left: 1 << 20, files: 10, files_left: 1 };

        assert!(!roomy.is_full());
        assert!(Disk { bytes_left: 4096, ..roomy }.is_full());
        assert!(Disk { files_left: 0, ..roomy }.is_full());
    }

    #[test]
    fn what_is_left_of_a_large_disk_is_too_little_for_a_large_write() {
        let large = Disk { bytes: 512 << 20, bytes_left: 512 * 1024, ..Disk::default() };
        let small = Disk { bytes: 4 << 20, ..large };

        assert!(large.is_full() && !small.is_full());
        assert!(!Disk { bytes_left: 2 << 20, ..large }.is_full());
    }

    #[test]
    fn a_filesystem_that_counts_nothing_is_never_full() {
        assert!(!Disk::default().is_full());
    }

    #[test]
    fn a_full_disk_explains_failures_after_it_and_nothing_else() {
        let watch = DiskWatch { next_look_ms: None, last_full_ms: Some(5) };
        let succeeded = Ended { code: Some(0), ..FAILED };
        let killed = Ended { by: EndedBy::Kill, code: None, signal: Some(9), ..FAILED };

        assert_eq!(watch.explain(FAILED, 5).by, EndedBy::DiskLimit);
        assert_eq!(watch.explain(FAILED, 6).by, EndedBy::Itself);
        assert_eq!(watch.explain(succeeded, 5).by, EndedBy::Itself);
        assert_eq!(watch.explain(killed, 5).by, EndedBy::Kill);
    }
}
