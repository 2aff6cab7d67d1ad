//! A log file created in advance. Creating a file costs more than everything else that the log of a command does, and
//! the client that waits for the command would wait for it too.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, openat, renameat};

/// Not a valid name of a log segment.
const NAME: &str = "spare";

/// When to create the next spare file.
#[derive(Default)]
pub struct SpareLog {
    due_ms: Option<i64>,
}

impl SpareLog {
    pub fn schedule(&mut self, at_ms: i64) {
        self.due_ms = Some(at_ms);
    }

    pub fn next_check_ms(&self) -> Option<i64> {
        self.due_ms
    }

    /// Creates the file if it is due. On failure the next log creates its own.
    pub fn create_if_due(&mut self, now_ms: i64, directory: &OwnedFd) {
        if self.due_ms.is_some_and(|due| due <= now_ms) {
            self.due_ms = None;
            let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let _not_made = openat(directory, NAME, flags, Mode::RUSR | Mode::WUSR);
        }
    }
}

/// Takes the spare file, if there is one, and renames it.
pub(crate) fn take(directory: &OwnedFd, name: &str) -> io::Result<File> {
    let flags = OFlags::APPEND | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = openat(directory, NAME, flags, Mode::empty())?;
    renameat(directory, NAME, directory, name)?;
    Ok(file.into())
}
