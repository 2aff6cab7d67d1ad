//! Cgroups can outlive a pid namespace. They are empty by then.

use std::fs;
use std::path::Path;

use pinfold_checker::Kernel;

use super::fixture::remove_cgroups;

/// File with the store id, by which a round's cgroups are named.
pub(crate) const INSTANCE: &str = "instance";

/// Removes the cgroups that were left, and returns their paths.
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
    left.iter().for_each(|group| remove_cgroups(group));
    left.iter().map(|group| group.display().to_string()).collect()
}

fn is_base(name: &std::ffi::OsStr) -> bool {
    name.to_string_lossy().starts_with("pinfold.")
}
