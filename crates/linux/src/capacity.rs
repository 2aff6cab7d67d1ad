//! How much room this host has for more instances. A figure that cannot be measured is `None`, never "plenty".

use std::fs;
use std::path::Path;

use pinfold_provider::Capacity;
use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::io::Errno;

use crate::disk::{memory_left_mb, memory_total_mb};
use crate::paths::DataPaths;

pub(crate) fn of(data_paths: &DataPaths) -> Capacity {
    let disk = disk_mb(&data_paths.logs);
    let measured = disk.as_ref().ok().copied().flatten();
    let processes = processes();
    Capacity {
        memory_mb_left: memory_left_mb(),
        disk_mb_left: measured.map(|(left, _)| left),
        processes_left: processes.map(|(left, _)| left),
        memory_mb_total: memory_total_mb(),
        disk_mb_total: measured.map(|(_, total)| total),
        processes_total: processes.map(|(_, total)| total),
        disk_unusable: disk.err(),
    }
}

/// Free and total MiB, without the blocks reserved for root. `None`: cannot be measured. An error means that nothing
/// can be written there.
fn disk_mb(path: &Path) -> Result<Option<(u64, u64)>, String> {
    match statvfs(path) {
        Ok(found) if found.f_flag.contains(StatVfsMountFlags::RDONLY) => {
            Err("the file system is mounted read-only".into())
        }
        Ok(found) => {
            let mb = |blocks: u64| blocks.saturating_mul(found.f_frsize) >> 20;
            let reserved = found.f_bfree.saturating_sub(found.f_bavail);
            Ok(Some((mb(found.f_bavail), mb(found.f_blocks.saturating_sub(reserved)))))
        }
        Err(error @ (Errno::IO | Errno::ROFS | Errno::STALE | Errno::NOTCONN | Errno::SHUTDOWN)) => {
            Err(error.to_string())
        }
        Err(_) => Ok(None),
    }
}

/// Free and total process ids. Every thread uses one.
fn processes() -> Option<(u64, u64)> {
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let limit = number("/proc/sys/kernel/pid_max")?.min(number("/proc/sys/kernel/threads-max")?);
    let load = fs::read_to_string("/proc/loadavg").ok()?;
    let now = load.split_whitespace().nth(3)?.split_once('/')?.1.parse::<u64>().ok()?;
    Some((limit.saturating_sub(now), limit))
}
