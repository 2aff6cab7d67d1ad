//! Reads process information from `/proc`. A pid with its start time identifies a process; a pid alone does not, since
//! the kernel reuses pids.

use std::fs;
use std::io;
use std::path::Path;

/// Reads a file of `/proc` as text. Invalid UTF-8 is replaced: process names may hold any bytes.
pub fn read_text(file: &Path) -> Option<String> {
    Some(String::from_utf8_lossy(&fs::read(file).ok()?).into_owned())
}

/// Start time of a process in clock ticks since boot. None: there is no such process, or it is a zombie.
pub fn start_time(pid: i32) -> io::Result<Option<u64>> {
    let stat = match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        // The process exited between open and read.
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
        Err(error) => return Err(error),
    };
    let fields = stat.rfind(')').map(|end| &stat[end + 1..]).unwrap_or_default();
    let mut fields = fields.split_whitespace();
    match fields.next() {
        Some("Z" | "X") | None => Ok(None),
        Some(_) => Ok(fields.nth(18).and_then(|began| began.parse().ok())),
    }
}
