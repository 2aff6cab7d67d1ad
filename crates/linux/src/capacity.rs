//! What this host has left for more bodies. What cannot be measured is not taken for plenty.

use std::fs;
use std::path::Path;

use pinfold_provider::Capacity;
use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::io::Errno;

use crate::disk::memory_left_mb;
use crate::id_ranges::IdRanges;
use crate::places::Grounds;

pub(crate) fn of(grounds: &Grounds, ids: &IdRanges) -> Capacity {
    let disk = disk_left_mb(&grounds.logs);
    Capacity {
        memory_mb_left: memory_left_mb(),
        disk_mb_left: disk.as_ref().ok().copied().flatten(),
        processes_left: processes_left(),
        ids_left: ids.left(),
        disk_unusable: disk.err(),
    }
}

/// None: it cannot be measured. An error is evidence that nothing can be written there.
fn disk_left_mb(path: &Path) -> Result<Option<u64>, String> {
    match statvfs(path) {
        Ok(found) if found.f_flag.contains(StatVfsMountFlags::RDONLY) => {
            Err("it is mounted read-only".into())
        }
        Ok(found) => Ok(Some(found.f_bavail.saturating_mul(found.f_frsize) >> 20)),
        Err(error @ (Errno::IO | Errno::ROFS | Errno::STALE | Errno::NOTCONN | Errno::SHUTDOWN)) => {
            Err(error.to_string())
        }
        Err(_) => Ok(None),
    }
}

/// Every thread takes a number, of which there are only so many.
fn processes_left() -> Option<u64> {
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let most = number("/proc/sys/kernel/pid_max")?.min(number("/proc/sys/kernel/threads-max")?);
    let load = fs::read_to_string("/proc/loadavg").ok()?;
    let now = load.split_whitespace().nth(3)?.split_once('/')?.1.parse::<u64>().ok()?;
    Some(most.saturating_sub(now))
}
