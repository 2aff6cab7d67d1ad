//! A file made ahead of need: to make one costs a disk's filesystem more than all else that a command's log does, and
//! whoever waits for the command would wait for it too.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, openat, renameat};

/// No execution is called so.
const NAME: &str = "spare";

/// When the next one is to be made.
#[derive(Default)]
pub(crate) struct Spare {
    due_ms: Option<i64>,
}

impl Spare {
    pub(crate) fn is_needed(&mut self, at_ms: i64) {
        self.due_ms = Some(at_ms);
    }

    pub(crate) fn next_look_ms(&self) -> Option<i64> {
        self.due_ms
    }

    /// One that cannot be made is done without.
    pub(crate) fn look(&mut self, now_ms: i64, directory: &OwnedFd) {
        if self.due_ms.is_some_and(|due| due <= now_ms) {
            self.due_ms = None;
            let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let _not_made = openat(directory, NAME, flags, Mode::RUSR | Mode::WUSR);
        }
    }
}

/// The spare file, if there is one, under a name of its own.
pub(super) fn take(directory: &OwnedFd, name: &str) -> io::Result<File> {
    let flags = OFlags::APPEND | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = openat(directory, NAME, flags, Mode::empty())?;
    renameat(directory, NAME, directory, name)?;
    Ok(file.into())
}
