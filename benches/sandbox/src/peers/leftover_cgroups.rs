//! Removes cgroups that peers leave behind when they are killed. Their names begin with this process's prefix.

use std::fs;
use std::path::Path;
use std::time::Duration;

use pinfold_bench_report::now;

const DEEPEST: usize = 16;
/// How long killed processes may take to be gone.
const TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct LeftoverCgroups;

impl LeftoverCgroups {
    /// Prefix of every name given to a peer.
    #[expect(
        clippy::unused_self,
        reason = "names are given out only while a value exists that removes the cgroups"
    )]
    pub(crate) fn prefix(&self) -> String {
        prefix()
    }
}

impl Drop for LeftoverCgroups {
    fn drop(&mut self) {
        remove_groups(Path::new("/sys/fs/cgroup"), DEEPEST);
    }
}

fn prefix() -> String {
    format!("pinfold-bench-{}", std::process::id())
}

fn remove_groups(group: &Path, depth: usize) {
    let Ok(entries) = fs::read_dir(group) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let own =
            name.strip_prefix(&prefix()).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()));
        if own {
            remove_all(&path, depth);
        } else if depth > 0 {
            remove_groups(&path, depth - 1);
        }
    }
}

/// The deepest first. A cgroup that still has a process is left for inspection.
fn remove_all(group: &Path, depth: usize) {
    if let (Ok(entries), true) = (fs::read_dir(group), depth > 0) {
        for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            remove_all(&entry.path(), depth - 1);
        }
    }
    let begun = now();
    while fs::remove_dir(group).is_err() && group.exists() && begun.elapsed() < TIMEOUT {
        std::thread::sleep(Duration::from_millis(5));
    }
}
