//! The processes of an instance as `/proc` shows them from outside. Nothing inside takes part, so hostile code can
//! neither block nor fake the answer; process names are untrusted text.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use pinfold_procfs::{ProcessState, Stat};
use pinfold_provider::{InstanceError, ProcessInfo};

use crate::cgroup::InstanceCgroup;
use crate::paths::InstancePaths;
use crate::pid_lock::{self, KeeperStatus};

/// Maximum number of entries, so that a fork bomb makes no endless list.
const MAX_PROCESSES: usize = 256;
/// The `wchan` of a process that waits for terminal input.
const TERMINAL_READ: &str = "n_tty_read";

/// All processes except the keeper, ordered by pid.
pub(crate) fn of(paths: &InstancePaths) -> Result<Vec<ProcessInfo>, InstanceError> {
    let proc = Path::new("/proc");
    let Ok(KeeperStatus::Alive(keeper, _)) = pid_lock::keeper_status(paths) else {
        return Err(InstanceError::NoSuchInstance);
    };
    let parents = parents(proc).map_err(|error| InstanceError::Unreachable { why: error.to_string() })?;
    let inside = descendants(&parents, keeper);
    Ok(inside.into_iter().take(MAX_PROCESSES).filter_map(|pid| inspect(proc, pid)).collect())
}

/// Whether any thread except the keeper's is runnable. `None`: the processes cannot be listed.
pub(crate) fn any_running(paths: &InstancePaths, groups: &InstanceCgroup) -> Option<bool> {
    let Ok(KeeperStatus::Alive(keeper, _)) = pid_lock::keeper_status(paths) else { return None };
    let proc = Path::new("/proc");
    let inside = if groups.tracks() {
        let listed = groups.processes().ok()?.into_iter().filter_map(|pid| i32::try_from(pid).ok());
        listed.filter(|pid| *pid != keeper).collect()
    } else {
        descendants(&parents(proc).ok()?, keeper)
    };
    Some(any_thread_running(proc, &inside))
}

fn any_thread_running(proc: &Path, pids: &[i32]) -> bool {
    let threads = pids.iter().flat_map(|pid| threads(proc, *pid));
    threads.take(MAX_PROCESSES).any(|stat| stat.state == ProcessState::Running)
}

/// All threads: any of them may be running while the first one sleeps.
fn threads(proc: &Path, pid: i32) -> impl Iterator<Item = Stat> {
    let tasks = fs::read_dir(proc.join(pid.to_string()).join("task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| Stat::read_in(&task.path()).ok()?)
}

/// Maps every pid to its parent. Orphans inside are reparented to the keeper, so all processes are below it.
pub(crate) fn parents(proc: &Path) -> std::io::Result<BTreeMap<i32, i32>> {
    let mut parents = BTreeMap::new();
    for entry in fs::read_dir(proc)? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // Processes that exited meanwhile are left out.
        if let Some(stat) = stat(proc, pid) {
            parents.insert(pid, stat.parent);
        }
    }
    Ok(parents)
}

/// All descendants of a process, ordered by pid.
pub(crate) fn descendants(parents: &BTreeMap<i32, i32>, of: i32) -> Vec<i32> {
    let mut children = BTreeMap::<i32, Vec<i32>>::new();
    for (pid, parent) in parents {
        children.entry(*parent).or_default().push(*pid);
    }
    let mut below = Vec::new();
    let mut to_visit = vec![of];
    while let Some(pid) = to_visit.pop() {
        // Each is visited once: the process tree has no cycles, but it changes while it is read.
        let direct_children = children.remove(&pid).unwrap_or_default();
        to_visit.extend(&direct_children);
        below.extend(direct_children);
    }
    below.sort_unstable();
    below
}

fn inspect(proc: &Path, pid: i32) -> Option<ProcessInfo> {
    let Stat { name, state, .. } = stat(proc, pid)?;
    let own = proc.join(pid.to_string());
    let wait_channel = fs::read_to_string(own.join("wchan")).ok();
    let wait_channel = wait_channel.filter(|function| !function.is_empty() && function != "0");
    let reads = fs::read_to_string(own.join("syscall")).is_ok_and(|call| reads_standard_input(&call));
    let at_terminal = wait_channel.as_deref() == Some(TERMINAL_READ);
    Some(ProcessInfo {
        name,
        state,
        wait_channel,
        waits_for_input: reads || at_terminal,
        sockets: sockets(&own),
    })
}

/// None: it has exited meanwhile, or cannot be read.
fn stat(proc: &Path, pid: i32) -> Option<Stat> {
    Stat::read_in(&proc.join(pid.to_string())).ok()?
}

/// The line holds the system call number and its arguments.
fn reads_standard_input(call: &str) -> bool {
    let mut words = call.split(' ');
    let number = words.next().and_then(|word| word.parse::<i64>().ok());
    number == Some(READ) && words.next() == Some("0x0")
}

#[cfg(target_arch = "x86_64")]
const READ: i64 = 0;
#[cfg(target_arch = "aarch64")]
const READ: i64 = 63;

fn sockets(own: &Path) -> usize {
    let Ok(entries) = fs::read_dir(own.join("fd")) else { return 0 };
    let is_socket = |path: &Path| {
        fs::read_link(path).is_ok_and(|target| target.to_str().is_some_and(|it| it.starts_with("socket:")))
    };
    entries.flatten().filter(|entry| is_socket(&entry.path())).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_runs_if_any_of_its_threads_does() {
        let proc = tempfile::tempdir().unwrap();
        for (task, state) in [("7/task/7", "S"), ("7/task/8", "R"), ("9/task/9", "S"), ("9/task/10", "D")] {
            fs::create_dir_all(proc.path().join(task)).unwrap();
            let named =
                [b"7 (\xff) ", state.as_bytes(), b" 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0"].concat();
            fs::write(proc.path().join(task).join("stat"), named).unwrap();
        }

        assert!(any_thread_running(proc.path(), &[9, 7]));
        assert!(!any_thread_running(proc.path(), &[9, 11]));
    }

    #[test]
    fn only_descendants_of_the_keeper_are_listed_and_a_cycle_ends() {
        let parents = BTreeMap::from([(10, 1), (11, 10), (12, 11), (13, 2), (20, 21), (21, 20)]);

        assert_eq!(descendants(&parents, 10), [11, 12]);
        assert_eq!(descendants(&parents, 99), [0; 0]);
    }

    #[test]
    fn a_long_chain_of_processes_is_walked_once() {
        let chain: BTreeMap<i32, i32> = (1..=20_000).map(|pid| (pid, pid - 1)).collect();
        let (sender, walked) = std::sync::mpsc::channel();

        std::thread::spawn(move || sender.send(descendants(&chain, 0)));

        let inside = walked.recv_timeout(std::time::Duration::from_secs(2)).expect("the walk is not linear");
        assert!(inside.into_iter().eq(1..=20_000));
    }

    #[test]
    fn a_read_of_the_first_descriptor_is_a_wait_for_input() {
        assert!(reads_standard_input(&format!("{READ} 0x0 0x7ffd 0x1 0x0 0x0 0x0 0x7ffd 0x7f01")));
        assert!(!reads_standard_input(&format!("{READ} 0x3 0x7ffd 0x1")));
        assert!(!reads_standard_input("running\n"));
    }
}
