//! What this host has left for more bodies. What cannot be measured is not taken for plenty.

use std::fs;

use pinfold_provider::Capacity;
use rustix::fs::statvfs;

use crate::disk::memory_left_mb;
use crate::id_ranges::IdRanges;
use crate::places::Grounds;

pub(crate) fn of(grounds: &Grounds, ids: &IdRanges) -> Capacity {
    Capacity {
        memory_mb_left: memory_left_mb(),
        disk_mb_left: disk_left_mb(grounds),
        processes_left: processes_left(),
        ids_left: ids.left(),
    }
}

fn disk_left_mb(grounds: &Grounds) -> Option<u64> {
    let found = statvfs(&grounds.logs).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize) >> 20)
}

/// Every thread takes a number, of which there are only so many.
fn processes_left() -> Option<u64> {
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let most = number("/proc/sys/kernel/pid_max")?.min(number("/proc/sys/kernel/threads-max")?);
    let load = fs::read_to_string("/proc/loadavg").ok()?;
    let now = load.split_whitespace().nth(3)?.split_once('/')?.1.parse::<u64>().ok()?;
    Some(most.saturating_sub(now))
}
