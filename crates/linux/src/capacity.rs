//! What this host has left for more bodies. What cannot be measured is not taken for plenty.

use std::fs;

use pinfold_provider::Capacity;
use rustix::fs::statvfs;

use crate::disk::{memory_left_mb, memory_total_mb};
use crate::id_ranges::IdRanges;
use crate::places::Grounds;

pub(crate) fn of(grounds: &Grounds, ids: &IdRanges) -> Capacity {
    let disk = disk_mb(grounds);
    let processes = processes();
    Capacity {
        memory_mb_left: memory_left_mb(),
        disk_mb_left: disk.map(|(left, _)| left),
        processes_left: processes.map(|(left, _)| left),
        memory_mb_total: memory_total_mb(),
        disk_mb_total: disk.map(|(_, total)| total),
        processes_total: processes.map(|(_, total)| total),
        ids_left: ids.left(),
    }
}

/// What is left, and of how much. What is kept back for root is nobody's.
fn disk_mb(grounds: &Grounds) -> Option<(u64, u64)> {
    let found = statvfs(&grounds.logs).ok()?;
    let mb = |blocks: u64| blocks.saturating_mul(found.f_frsize) >> 20;
    let kept_back = found.f_bfree.saturating_sub(found.f_bavail);
    Some((mb(found.f_bavail), mb(found.f_blocks.saturating_sub(kept_back))))
}

/// The same of processes. Every thread takes a number, of which there are only so many.
fn processes() -> Option<(u64, u64)> {
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let most = number("/proc/sys/kernel/pid_max")?.min(number("/proc/sys/kernel/threads-max")?);
    let load = fs::read_to_string("/proc/loadavg").ok()?;
    let now = load.split_whitespace().nth(3)?.split_once('/')?.1.parse::<u64>().ok()?;
    Some((most.saturating_sub(now), most))
}
