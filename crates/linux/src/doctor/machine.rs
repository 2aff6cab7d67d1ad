//! Host resources: disk, a suitable file system, a clock.

use std::path::Path;

use rustix::fs::statfs;
use rustix::process::getuid;
use rustix::time::{ClockId, clock_gettime};

use super::{Diagnosis, kernel};
use crate::cgroup::Ability;
use crate::disk::StorageOptions;

/// Warn below this much free disk.
const MIN_FREE_MIB: u64 = 1024;
/// A clock before this date was never set.
const CLOCK_NEVER_SET_S: i64 = 1_700_000_000;

pub(super) fn diagnose(data: &Path) -> Vec<Diagnosis> {
    vec![filesystem(data), free_disk(data), disk_limit(), clock()]
}

/// The nearest existing ancestor.
fn nearest_existing(path: &Path) -> &Path {
    path.ancestors().find(|existing| existing.exists()).unwrap_or(Path::new("/"))
}

fn filesystem(data: &Path) -> Diagnosis {
    let existing = nearest_existing(data);
    let shown = data.display();
    let may_write = rustix::fs::access(existing, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK);
    let found = match (statfs(existing), may_write) {
        (_, Err(error)) => {
            let why = format!("`{}` may not be written to: {error}", existing.display());
            Diagnosis::missing("data directory", why, "choose another by --data-dir")
        }
        (Err(error), _) => Diagnosis::missing(
            "data directory",
            format!("`{shown}`: {error}"),
            "choose another by --data-dir",
        ),
        (Ok(stat), Ok(())) => match kind(stat.f_type.cast_unsigned()) {
            Kind::Local(name) if getuid().is_root() && !supports_id_mapping(&name) => {
                let why = format!("`{shown}` on {name}, which does not support id-mapped mounts");
                Diagnosis::missing("data directory", why, "choose one on ext4, xfs or btrfs by --data-dir")
            }
            Kind::Local(name) => Diagnosis::enforced("data directory", format!("`{shown}` on {name}")),
            Kind::Remote(name) => {
                let why = format!("`{shown}` on {name}, whose locks cannot be relied on");
                Diagnosis::missing("data directory", why, "choose one on a local filesystem by --data-dir")
            }
        },
    };
    found.required()
}

enum Kind {
    Local(String),
    Remote(&'static str),
}

/// File system by its magic number.
fn kind(number: u64) -> Kind {
    let local = |name: &str| Kind::Local(name.to_owned());
    match number {
        0xef53 => local("ext4"),
        0x5846_5342 => local("xfs"),
        0x9123_683e => local("btrfs"),
        0x0102_1994 => local("tmpfs"),
        0x794c_7630 => local("overlayfs"),
        0x6969 => Kind::Remote("nfs"),
        0xff53_4d42 | 0xfe53_4d42 => Kind::Remote("smb"),
        other => Kind::Local(format!("a filesystem of kind {other:#x}")),
    }
}

/// Whether it supports id-mapped mounts: shared layers are owned by root on disk and by sandbox ids inside.
fn supports_id_mapping(filesystem: &str) -> bool {
    match filesystem {
        "overlayfs" => false,
        "tmpfs" => kernel::is_at_least((6, 3)),
        _ => true,
    }
}

fn free_disk(data: &Path) -> Diagnosis {
    match statfs(nearest_existing(data)) {
        Ok(stat) => {
            let block = u64::try_from(stat.f_bsize).unwrap_or(0);
            let free = stat.f_bavail.saturating_mul(block) >> 20;
            let means = format!("{free} MiB are free for sandboxes and records");
            if free >= MIN_FREE_MIB {
                Diagnosis::enforced("free disk", means)
            } else {
                Diagnosis::missing("free disk", means, "free some, or choose another --data-dir")
            }
        }
        Err(error) => Diagnosis::missing("free disk", error.to_string(), "see the data directory"),
    }
}

/// How disk limits are enforced.
fn disk_limit() -> Diagnosis {
    match StorageOptions::detect().ability() {
        Ability::Enforced { by } => Diagnosis::enforced("disk limit", by),
        Ability::Unavailable { why, fix } => Diagnosis::missing("disk limit", why, fix),
    }
}

fn clock() -> Diagnosis {
    let shown = clock_gettime(ClockId::Realtime).tv_sec;
    if shown >= CLOCK_NEVER_SET_S {
        return Diagnosis::enforced("clock", "set; deadlines run on the kernel's own counter");
    }
    Diagnosis::missing(
        "clock",
        "the clock shows a date long past",
        "set the clock: records would carry wrong dates",
    )
}
