//! What can outlive an enclosure: control groups. They are empty when it is gone.

use std::fs;
use std::path::Path;

use pinfold_checker::Kernel;

use super::ground::remove_groups;

/// The file of a round that says by which name its groups are known.
pub(crate) const INSTANCE: &str = "instance";

/// Says which groups were left, and removes them.
pub(crate) fn clear(directory: &Path) -> Vec<String> {
    let own = directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut left = Vec::new();
    if let Ok(instance) = fs::read_to_string(directory.join(INSTANCE)) {
        let groups = Kernel::new(directory, instance.trim(), &[]).groups();
        let tops = groups.iter().filter(|group| group.file_name().is_some_and(is_base));
        left.extend(tops.cloned());
    }
    for home in ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"] {
        left.extend(
            ["pinfold-chaos", "pinfold-points"].map(|kind| Path::new(home).join(format!("{kind}.{own}"))),
        );
    }
    left.retain(|group| group.exists());
    left.iter().for_each(|group| remove_groups(group));
    left.iter().map(|group| group.display().to_string()).collect()
}

fn is_base(name: &std::ffi::OsStr) -> bool {
    name.to_string_lossy().starts_with("pinfold.")
}
