//! Facts about processes: the parser of `/proc/PID/stat` and of text in `/proc`, and how a process ended. A pid with its
//! start time identifies a process; a pid alone does not, since the kernel reuses pids.

mod exit;
mod stat;

use std::fs;
use std::io;
use std::path::Path;

pub use exit::{ProcessEnd, process_end};
pub use stat::{ProcessState, Stat};

/// Reads a file of `/proc` as text. Invalid UTF-8 is replaced: process names may hold any bytes.
#[must_use]
pub fn read_text(file: &Path) -> Option<String> {
    Some(String::from_utf8_lossy(&fs::read(file).ok()?).into_owned())
}

/// Start time of a process in clock ticks since boot. None: there is no such process, or it is a zombie.
pub fn start_time(pid: i32) -> io::Result<Option<u64>> {
    Ok(Stat::of(pid)?.filter(|stat| !stat.has_exited()).map(|stat| stat.start_ticks))
}
