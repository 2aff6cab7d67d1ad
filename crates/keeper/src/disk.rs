//! Usage of the sandbox's storage, measured from inside, and whether it was full while an execution ran.

use std::io;

use pinfold_keeper_wire::{DiskUsage, Ended, EndedBy};
use rustix::fs::statvfs;

/// Assumed maximum write rate per millisecond.
const MAX_BYTES_PER_MS: u64 = 1 << 20;
const MAX_FILES_PER_MS: u64 = 50;

/// Asks the kernel about the root filesystem inside.
pub(crate) fn measure() -> io::Result<DiskUsage> {
    // Ask for the filesystem statistics of the root (statvfs).
    let found = statvfs("/")?;
    Ok(DiskUsage {
        bytes: found.f_blocks.saturating_mul(found.f_frsize),
        bytes_used: found.f_blocks.saturating_sub(found.f_bfree).saturating_mul(found.f_frsize),
        bytes_left: found.f_bavail.saturating_mul(found.f_frsize),
        files: found.f_files,
        files_left: found.f_ffree,
    })
}

/// Minimum time in which the remaining space can be filled.
fn min_ms_until_full(disk: &DiskUsage) -> i64 {
    let last = |all: u64, left: u64, each_ms: u64| if all == 0 { u64::MAX } else { left / each_ms };
    let bytes = last(disk.bytes, disk.bytes_left, MAX_BYTES_PER_MS);
    let files = last(disk.files, disk.files_left, MAX_FILES_PER_MS);
    i64::try_from(bytes.min(files)).unwrap_or(i64::MAX)
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
        let disk = measure().unwrap_or_default();
        if disk.is_full() {
            self.last_full_ms = Some(now_ms);
        }
        let wait_ms = min_ms_until_full(&disk).clamp(MIN_CHECK_MS, MAX_CHECK_MS);
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
    use pinfold_keeper_wire::LimitHits;

    use super::*;

    const FAILED: Ended =
        Ended { by: EndedBy::Itself, code: Some(1), signal: None, limit_hits: LimitHits::NOTHING };

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
