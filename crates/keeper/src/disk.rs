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
    pub files: u64,
    pub files_used: u64,
}

/// Less than this is too little for most writes, which then fail while it is still left.
const LEFT_BYTES: u64 = 64 * 1024;

impl Disk {
    pub(crate) fn look() -> io::Result<Self> {
        let found = statvfs("/")?;
        Ok(Self {
            bytes: found.f_blocks.saturating_mul(found.f_frsize),
            bytes_used: found.f_blocks.saturating_sub(found.f_bfree).saturating_mul(found.f_frsize),
            files: found.f_files,
            files_used: found.f_files.saturating_sub(found.f_ffree),
        })
    }

    /// Whatever is written next does not fit.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let bytes = self.bytes > 0 && self.bytes - self.bytes_used.min(self.bytes) < LEFT_BYTES;
        bytes || (self.files > 0 && self.files_used >= self.files)
    }

    /// So full that it is looked at again soon.
    pub(crate) fn is_filling_up(&self) -> bool {
        let most = |used: u64, all: u64| all > 0 && used > all - all / 4;
        most(self.bytes_used, self.bytes) || most(self.files_used, self.files)
    }
}

/// Looks at the storage while something runs: who writes to a full one may fail, tidy up and be gone again soon.
#[derive(Debug, Default)]
pub(crate) struct DiskWatch {
    next_look_ms: Option<i64>,
    last_full_ms: Option<i64>,
}

const LOOK_EVERY_MS: i64 = 50;

impl DiskWatch {
    pub(crate) fn look(&mut self, now_ms: i64, idle: bool) {
        self.next_look_ms = None;
        if idle {
            return;
        }
        // A look that fails says nothing about how full it is.
        let disk = Disk::look().unwrap_or_default();
        if disk.is_full() {
            self.last_full_ms = Some(now_ms);
        }
        if disk.is_filling_up() {
            self.next_look_ms = Some(now_ms.saturating_add(LOOK_EVERY_MS));
        }
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

    const FAILED: Ended = Ended { by: EndedBy::Itself, code: Some(1), signal: None };

    #[test]
    fn a_disk_is_full_when_bytes_or_files_have_run_out() {
        let roomy = Disk { bytes: 1 << 20, bytes_used: 0, files: 10, files_used: 9 };

        assert!(!roomy.is_full());
        assert!(Disk { bytes_used: (1 << 20) - 4096, ..roomy }.is_full());
        assert!(Disk { files_used: 10, ..roomy }.is_full());
    }

    #[test]
    fn a_filesystem_that_counts_nothing_is_never_full() {
        assert!(!Disk::default().is_full());
    }

    #[test]
    fn a_full_disk_explains_failures_after_it_and_nothing_else() {
        let watch = DiskWatch { next_look_ms: None, last_full_ms: Some(5) };
        let succeeded = Ended { code: Some(0), ..FAILED };
        let killed = Ended { by: EndedBy::Kill, code: None, signal: Some(9) };

        assert_eq!(watch.explain(FAILED, 5).by, EndedBy::DiskLimit);
        assert_eq!(watch.explain(FAILED, 6).by, EndedBy::Itself);
        assert_eq!(watch.explain(succeeded, 5).by, EndedBy::Itself);
        assert_eq!(watch.explain(killed, 5).by, EndedBy::Kill);
    }
}
