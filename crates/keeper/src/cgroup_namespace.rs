//! Finds the processes of an execution that has no cgroup of its own. Each execution has its own cgroup namespace, which
//! its processes cannot leave, and process 1 sees the namespace of every process in `/proc`.

use std::fs;
use std::io;
use std::path::Path;

use pinfold_procfs::Stat;
use rustix::process::{Pid, Signal, kill_process};

/// Attempts per call to prove that no process is left. The keeper calls again some milliseconds later.
const TRIES: usize = 4;

/// All processes in this cgroup namespace, in no order. Zombies are in none.
pub(crate) fn find(namespace: u64) -> io::Result<Vec<Pid>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| Pid::from_raw(name.parse().ok()?)) else { continue };
        if namespace_of(&entry.path()) == Some(namespace) {
            found.push(pid);
        }
    }
    Ok(found)
}

/// Kills all processes in this cgroup namespace. True: it is proven that there was none.
///
/// One empty scan of `/proc` proves nothing: a process may fork and exit before the scan reaches it, with its child not
/// yet listed. So two scans in a row must be empty, and no pid may have been allocated meanwhile. A process that the
/// second scan missed had its pid before the first, and so had a live parent then, which the first scan would have seen.
pub(crate) fn kill_all(namespace: u64) -> bool {
    for _ in 0..TRIES {
        let last = last_pid();
        if !(scan_and_kill(namespace) && scan_and_kill(namespace)) {
            return false;
        }
        if last.is_some() && last == last_pid() {
            return true;
        }
    }
    false
}

/// Scans once and kills what it finds. True: nothing was found. A failed scan is false.
fn scan_and_kill(namespace: u64) -> bool {
    let Ok(found) = find(namespace) else { return false };
    for process in &found {
        // The process may have exited meanwhile.
        let _ = kill_process(*process, Signal::KILL);
    }
    found.is_empty()
}

/// The cgroup namespace of a process. A process may live on after its first thread exited, whose entry is then empty. All
/// threads share one namespace: nothing inside can change it.
fn namespace_of(process: &Path) -> Option<u64> {
    let of = |task: &Path| parse_link(&fs::read_link(task.join("ns/cgroup")).ok()?);
    of(process).or_else(|| {
        let threads = fs::read_dir(process.join("task")).ok()?;
        threads.flatten().find_map(|thread| of(&thread.path()))
    })
}

/// Parses `cgroup:[4026531835]`.
fn parse_link(link: &Path) -> Option<u64> {
    link.to_str()?.strip_prefix("cgroup:[")?.strip_suffix(']')?.parse().ok()
}

/// The last pid allocated in this pid namespace, to a thread or a process.
fn last_pid() -> Option<u64> {
    parse_last_pid(&fs::read_to_string("/proc/loadavg").ok()?)
}

/// Parses `0.10 0.20 0.30 1/80 4711`.
fn parse_last_pid(load: &str) -> Option<u64> {
    load.split_whitespace().next_back()?.parse().ok()
}

/// CPU time of a process and its reaped children.
pub(crate) fn cpu_ms(pid: Pid) -> Option<u64> {
    Some(Stat::of(pid.as_raw_pid()).ok()??.cpu_ms_with_reaped())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    #[test]
    fn a_process_is_found_by_its_cgroup_namespace() {
        let own = fs::metadata("/proc/self/ns/cgroup").unwrap().ino();

        let found = find(own).unwrap();

        assert!(found.contains(&rustix::process::getpid()), "{found:?}");
    }

    #[test]
    fn the_namespace_of_a_process_without_its_first_thread_is_read_from_another_thread() {
        let process = tempfile::tempdir().unwrap();
        let task = process.path().join("task");
        fs::create_dir_all(task.join("7")).unwrap();
        fs::create_dir_all(task.join("8/ns")).unwrap();
        symlink("cgroup:[42]", task.join("8/ns/cgroup")).unwrap();

        assert_eq!(namespace_of(process.path()), Some(42));
        assert_eq!(namespace_of(&task.join("7")), None);
    }

    #[test]
    fn the_last_pid_is_the_last_field_of_loadavg() {
        assert_eq!(parse_last_pid("0.10 0.20 0.30 1/80 4711\n"), Some(4711));
        assert_eq!(parse_last_pid("\n"), None);
    }
}
