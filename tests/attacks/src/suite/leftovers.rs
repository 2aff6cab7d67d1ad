//! What must hold after every attempt, checked on the host and not by the provider.

use std::fs;
use std::path::{Path, PathBuf};

use crate::fixture::Fixture;

/// The host ids that a sandbox's ids map to, if it has its own range.
pub(crate) fn ids_of(fixture: &Fixture) -> Option<std::ops::Range<u32>> {
    let slot: u32 = fs::read_to_string(fixture.control().join("ids")).ok()?.parse().ok()?;
    let first = 1_000_000_000 + slot * 65_536;
    Some(first..first + 65_536)
}

/// All resources of a sandbox that still exist.
pub(crate) fn leftovers(fixture: &Fixture, ids: Option<std::ops::Range<u32>>) -> Vec<String> {
    let mut left = Vec::new();
    if let Some(ids) = ids {
        left.extend(processes_with(&ids).into_iter().map(|pid| format!("process {pid}")));
    }
    let mut groups = Vec::new();
    groups_named(Path::new("/sys/fs/cgroup"), &format!("pinfold.{:032x}", fixture.store_id), 0, &mut groups);
    // The base cgroup goes with the provider.
    left.extend(
        groups.iter().flat_map(|base| subgroups(base)).map(|group| format!("cgroup {}", group.display())),
    );
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let data = fixture.data().display().to_string();
    left.extend(mounts.lines().filter(|line| line.contains(&data)).map(|line| format!("mount {line}")));
    for directory in ["instances", "control", "ids"] {
        let entries = fs::read_dir(fixture.data().join(directory)).into_iter().flatten().flatten();
        left.extend(entries.map(|entry| entry.path().display().to_string()));
    }
    left
}

pub(crate) fn processes_with(ids: &std::ops::Range<u32>) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_theirs = |pid: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let uid = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        let dead = status.lines().any(|line| line.starts_with("State:\tZ"));
        let uid = uid.and_then(|line| line.split_whitespace().next()?.parse().ok());
        !dead && uid.is_some_and(|uid: u32| ids.contains(&uid))
    };
    pids.filter(is_theirs).collect()
}

fn subgroups(group: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

/// Base cgroups are at the top of a hierarchy or below the cgroup of the process that created them.
pub(crate) fn groups_named(directory: &Path, base: &str, depth: usize, found: &mut Vec<PathBuf>) {
    if depth > 4 {
        return;
    }
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if entry.file_name().to_string_lossy() == base {
            found.push(entry.path());
        } else {
            groups_named(&entry.path(), base, depth + 1, found);
        }
    }
}
