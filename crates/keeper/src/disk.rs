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
    is_full: bool,
    /// When the storage last turned from not full to full.
    filled_at_ms: Option<i64>,
}

/// The system's error text in the C locale, and its name as some runtimes print it.
const NO_SPACE: [&[u8]; 3] = [b"No space left on device", b"ENOSPC", b"Disk quota exceeded"];
/// Programs report the error that ends them last.
const SEARCHED_BYTES: usize = 4_096;

/// Whether the end of this output says that no space is left.
pub(crate) fn reports_no_space(output: &[u8]) -> bool {
    let end = &output[output.len().saturating_sub(SEARCHED_BYTES)..];
    NO_SPACE.iter().any(|text| end.windows(text.len()).any(|part| part == *text))
}

const MIN_CHECK_MS: i64 = 25;
const MAX_CHECK_MS: i64 = 1_000;

impl DiskWatch {
    pub(crate) fn check(&mut self, now_ms: i64, idle: bool) {
        self.next_check_ms = None;
        if idle {
            return;
        }
        let disk = self.observe(now_ms);
        let wait_ms = min_ms_until_full(&disk).clamp(MIN_CHECK_MS, MAX_CHECK_MS);
        self.next_check_ms = Some(now_ms.saturating_add(wait_ms));
    }

    /// Before an execution starts: a disk that is full by then was not filled by it.
    pub(crate) fn check_before_start(&mut self, now_ms: i64) {
        self.observe(now_ms.saturating_sub(1));
    }

    /// A failed check counts as not full. A check costs about a microsecond.
    fn observe(&mut self, at_ms: i64) -> DiskUsage {
        let disk = measure().unwrap_or_default();
        if disk.is_full() && !self.is_full {
            self.filled_at_ms = Some(at_ms);
        }
        self.is_full = disk.is_full();
        disk
    }

    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    pub(crate) fn next_check_ms(&self) -> Option<i64> {
        self.next_check_ms
    }

    /// Attributes a failure to the disk limit if the storage became full while the execution ran, or was full before
    /// and the execution said so. The kernel does not tell which write failed: a program that only failed beside a disk
    /// that was full already has a cause of its own.
    pub(crate) fn explain(&self, ended: Ended, started_ms: i64, reported_no_space: bool) -> Ended {
        let filled = self.filled_at_ms.is_some_and(|at| at >= started_ms);
        let by = match ended.by {
            EndedBy::Itself if (filled || reported_no_space) && ended.code != Some(0) => EndedBy::DiskLimit,
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
    fn reported_lack_of_space_is_found_at_the_end_of_output() {
        let long = "x".repeat(100_000);

        assert!(reports_no_space(format!("{long}cp: No space left on device\n").as_bytes()));
        assert!(reports_no_space(b"Error: ENOSPC: no space left on device, write"));
        assert!(!reports_no_space(long.as_bytes()));
        assert!(!reports_no_space(b""));
    }

    #[test]
    fn a_full_disk_explains_only_failures_of_executions_that_filled_it_or_say_so() {
        let watch = DiskWatch { filled_at_ms: Some(5), ..DiskWatch::default() };
        let succeeded = Ended { code: Some(0), ..FAILED };
        let killed = Ended { by: EndedBy::Kill, code: None, signal: Some(9), ..FAILED };

        assert_eq!(watch.explain(FAILED, 5, false).by, EndedBy::DiskLimit);
        assert_eq!(watch.explain(FAILED, 6, false).by, EndedBy::Itself);
        assert_eq!(watch.explain(FAILED, 6, true).by, EndedBy::DiskLimit);
        assert_eq!(watch.explain(succeeded, 5, true).by, EndedBy::Itself);
        assert_eq!(watch.explain(killed, 5, true).by, EndedBy::Kill);
    }
}
