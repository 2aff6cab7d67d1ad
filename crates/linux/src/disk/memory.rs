//! How much memory the host has, how much of it is left to us, and what files in it can hold.

use std::fs;
use std::path::Path;

use rustix::fs::{MemfdFlags, XattrFlags, fsetxattr, memfd_create};

/// All of it; none, if nobody says.
pub(crate) fn host_memory_mb() -> u64 {
    field("MemTotal:").unwrap_or(0)
}

/// All of it, where nothing less bounds what is left to us.
pub(crate) fn memory_total_mb() -> Option<u64> {
    let bounded = memory_left_mb()? < field("MemAvailable:")?;
    if bounded { None } else { field("MemTotal:") }
}

/// What the host has left, or what the groups that we are in leave us, whichever is less.
pub(crate) fn memory_left_mb() -> Option<u64> {
    let host = field("MemAvailable:")?;
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    Some(groups.lines().filter_map(left_in_group_mb).chain([host]).min().unwrap_or(host))
}

/// Whether files in memory take the attributes by which an overlay without privilege marks a directory.
pub(super) fn holds_marks() -> bool {
    let marked = memfd_create("marked", MemfdFlags::CLOEXEC)
        .and_then(|file| fsetxattr(&file, "user.overlay.opaque", b"y", XattrFlags::empty()));
    marked.is_ok()
}

fn field(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? / 1_024)
}

/// Through one group and all above it.
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
    fn what_is_left_is_something_and_not_more_than_there_is() {
        let left = memory_left_mb().unwrap();

        assert!(left > 0 && left <= host_memory_mb());
    }
}
