//! What the kernel tells of a process, and when one began: a process id alone names nobody, since the kernel gives it to
//! another one day.

use std::fs;
use std::io;
use std::path::Path;

/// One of its files, as far as it is text: a process may call itself anything.
pub fn told(file: &Path) -> Option<String> {
    Some(String::from_utf8_lossy(&fs::read(file).ok()?).into_owned())
}

/// In the kernel's ticks since boot. None: there is no such process, or it has ended and only waits to be reaped.
pub fn began(pid: i32) -> io::Result<Option<u64>> {
    let stat = match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        // The process went between the open and the read.
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
