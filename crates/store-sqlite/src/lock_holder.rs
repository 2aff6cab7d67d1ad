//! Which process holds the write lock, for messages: a process that hangs or was stopped with the lock keeps all others
//! from writing.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use pinfold_procfs::{ProcessState, Stat};

/// The byte of the `-shm` file that SQLite locks for writing while there is a write-ahead log.
const WRITE_LOCK: u64 = 120;

/// The process that holds the write lock of this database, as part of a sentence. None: none does, or the kernel does not
/// tell.
pub(crate) fn find(database: &Path) -> Option<String> {
    let inode = fs::metadata(database.with_extension("db-shm")).ok()?.ino();
    // Not by `fcntl`: it would need a descriptor of the file, and closing that would release SQLite's own locks.
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let pid = locks.lines().find_map(|line| writer(line, inode))?;
    Some(describe(pid))
}

/// The pid in a line of `/proc/locks`, if it is the write lock on this inode:
/// `7: POSIX  ADVISORY  WRITE 2017 08:01:1234 120 120`.
fn writer(line: &str, inode: u64) -> Option<i32> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, "POSIX", _, "WRITE", pid, file, first, last] = words.as_slice() else { return None };
    let is_file = file.rsplit(':').next()?.parse() == Ok(inode);
    let last: u64 = if *last == "EOF" { u64::MAX } else { last.parse().ok()? };
    let is_locked = first.parse::<u64>().ok()? <= WRITE_LOCK && WRITE_LOCK <= last;
    (is_file && is_locked).then(|| pid.parse().ok())?
}

fn describe(pid: i32) -> String {
    match Stat::of(pid) {
        Ok(Some(stat)) if stat.state == ProcessState::Stopped => {
            format!("process {pid} ({}, stopped by a signal)", stat.name)
        }
        Ok(Some(stat)) => format!("process {pid} ({})", stat.name),
        Ok(None) | Err(_) => format!("process {pid}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holder_is_read_from_the_line_of_the_write_lock() {
        let of = |line| writer(line, 1234);

        assert_eq!(of("7: POSIX  ADVISORY  WRITE 2017 08:01:1234 120 120"), Some(2017));
        assert_eq!(of("7: POSIX  ADVISORY  WRITE 2017 08:01:1234 120 121"), Some(2017));
        assert_eq!(of("7: POSIX  ADVISORY  READ 2017 08:01:1234 123 123"), None);
        assert_eq!(of("7: POSIX  ADVISORY  WRITE 2017 08:01:1235 120 120"), None);
        assert_eq!(of("7: -> POSIX  ADVISORY  WRITE 2017 08:01:1234 120 120"), None);
        assert_eq!(of("7: FLOCK  ADVISORY  WRITE 2017 08:01:1234 0 EOF"), None);
    }
}
