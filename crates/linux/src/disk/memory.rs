//! Memory of the host and what is left of it for us; abilities of tmpfs.

use std::fs;
use std::path::Path;

use rustix::fs::{MemfdFlags, XattrFlags, fsetxattr, memfd_create};

/// Total memory; 0 if unknown.
pub(crate) fn host_memory_mb() -> u64 {
    field("MemTotal:").unwrap_or(0)
}

/// Total memory, unless a cgroup limit leaves us less than the host has.
pub(crate) fn memory_total_mb() -> Option<u64> {
    let bounded = memory_left_mb()? < field("MemAvailable:")?;
    if bounded { None } else { field("MemTotal:") }
}

/// Available memory: of the host, or what the limits of our own cgroups leave, whichever is less.
pub(crate) fn memory_left_mb() -> Option<u64> {
    let host = field("MemAvailable:")?;
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    Some(groups.lines().filter_map(left_in_group_mb).chain([host]).min().unwrap_or(host))
}

/// Whether tmpfs accepts the user xattrs that an unprivileged overlay needs to mark opaque directories.
pub(super) fn tmpfs_has_user_xattrs() -> bool {
    let marked = memfd_create("marked", MemfdFlags::CLOEXEC)
        .and_then(|file| fsetxattr(&file, "user.overlay.opaque", b"y", XattrFlags::empty()));
    marked.is_ok()
}

fn field(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? / 1_024)
}

/// Memory left in one cgroup and all its ancestors.
fn left_in_group_mb(membership: &str) -> Option<u64> {
    let mut fields = membership.splitn(3, ':');
    let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let (roots, limit, usage): (&[&str], _, _) = match controllers {
        "" => (&["/sys/fs/cgroup", "/sys/fs/cgroup/unified"], "memory.max", "memory.current"),
        "memory" => (&["/sys/fs/cgroup/memory"], "memory.limit_in_bytes", "memory.usage_in_bytes"),
        _ => return None,
    };
    let number = |path: &Path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let groups = roots.iter().flat_map(|root| {
        let root = Path::new(root);
        let own = root.join(path.trim_start_matches('/'));
        own.ancestors().take_while(|at| at.starts_with(root)).map(Path::to_owned).collect::<Vec<_>>()
    });
    let left = groups
        .filter_map(|group| Some(number(&group.join(limit))?.saturating_sub(number(&group.join(usage))?)));
    left.min().map(|bytes| bytes >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_positive_and_at_most_the_total() {
        let left = memory_left_mb().unwrap();

        assert!(left > 0 && left <= host_memory_mb());
    }
}
