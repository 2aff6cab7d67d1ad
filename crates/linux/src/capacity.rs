//! What this host has left for more bodies. What cannot be measured is not taken for plenty.

use std::fs;
use std::path::Path;

use pinfold_provider::Capacity;
use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::io::Errno;

use crate::disk::{memory_left_mb, memory_total_mb};
use crate::id_ranges::IdRanges;
use crate::places::Grounds;

pub(crate) fn of(grounds: &Grounds, ids: &IdRanges) -> Capacity {
    let disk = disk_mb(&grounds.logs);
    let measured = disk.as_ref().ok().copied().flatten();
    let processes = processes();
    Capacity {
        memory_mb_left: memory_left_mb(),
        disk_mb_left: measured.map(|(left, _)| left),
        processes_left: processes.map(|(left, _)| left),
        memory_mb_total: memory_total_mb(),
        disk_mb_total: measured.map(|(_, total)| total),
        processes_total: processes.map(|(_, total)| total),
        ids_left: ids.left(),
        disk_unusable: disk.err(),
    }
}

/// What is left, and of how much; what is kept back for root is nobody's. None: it cannot be measured. An error is
/// evidence that nothing can be written there.
fn disk_mb(path: &Path) -> Result<Option<(u64, u64)>, String> {
    match statvfs(path) {
        Ok(found) if found.f_flag.contains(StatVfsMountFlags::RDONLY) => {
            Err("it is mounted read-only".into())
        }
        Ok(found) => {
            let mb = |blocks: u64| blocks.saturating_mul(found.f_frsize) >> 20;
            let kept_back = found.f_bfree.saturating_sub(found.f_bavail);
            Ok(Some((mb(found.f_bavail), mb(found.f_blocks.saturating_sub(kept_back)))))
        }
        Err(error @ (Errno::IO | Errno::ROFS | Errno::STALE | Errno::NOTCONN | Errno::SHUTDOWN)) => {
            Err(error.to_string())
        }
        Err(_) => Ok(None),
    }
}

/// The same of processes. Every thread takes a number, of which there are only so many.
fn processes() -> Option<(u64, u64)> {
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let most = number("/proc/sys/kernel/pid_max")?.min(number("/proc/sys/kernel/threads-max")?);
    let load = fs::read_to_string("/proc/loadavg").ok()?;
    let now = load.split_whitespace().nth(3)?.split_once('/')?.1.parse::<u64>().ok()?;
    Some((most.saturating_sub(now), most))
}
