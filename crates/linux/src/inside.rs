//! What the processes of a body do at this moment, as the kernel tells whoever looks from outside. Nothing inside is
//! asked, so nothing inside can hold the look up or talk it out of what it sees; names are as hostile as their owners.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use pinfold_keeper::process::told;
use pinfold_provider::InstanceId;

use crate::cgroup::BodyCgroup;
use crate::hold::{self, Keeper};
use crate::places::Places;
use crate::provider::LinuxProvider;

/// One process inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doing {
    /// As it calls itself.
    pub name: String,
    pub state: ProcessState,
    /// Where in the kernel it waits. None: nowhere, or nobody may know.
    pub waits_in: Option<String>,
    /// It waits for somebody to write to its standard input.
    pub waits_for_input: bool,
    pub sockets: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProcessState {
    Running,
    Sleeping,
    /// In the kernel, where no signal reaches it.
    Uninterruptible,
    /// By a signal, or by a debugger.
    Stopped,
    /// It has ended, and nobody has asked how.
    Zombie,
    Other,
}

/// A fork bomb has no use for a longer list.
const MOST: usize = 256;
/// What a wait for a terminal's keys is called.
const TERMINAL_READ: &str = "n_tty_read";

impl LinuxProvider {
    /// All processes inside but the keeper, in the order of their ids. None: it cannot be seen which they are.
    pub fn inside(&self, body: InstanceId) -> Option<Vec<Doing>> {
        let Ok(Keeper::Alive(keeper, _)) = hold::keeper(&self.grounds.of(body)) else { return None };
        let parents = parents(Path::new("/proc")).ok()?;
        let inside = descendants(&parents, keeper);
        Some(inside.into_iter().take(MOST).filter_map(|pid| look(Path::new("/proc"), pid)).collect())
    }
}

/// Whether a processor is used inside, or waited for. The keeper is left out. None: it cannot be seen who is inside.
pub(crate) fn any_runs(places: &Places, groups: &BodyCgroup) -> Option<bool> {
    let Ok(Keeper::Alive(keeper, _)) = hold::keeper(places) else { return None };
    let proc = Path::new("/proc");
    let inside = if groups.tracks() {
        let listed = groups.processes().ok()?.into_iter().filter_map(|pid| i32::try_from(pid).ok());
        listed.filter(|pid| *pid != keeper).collect()
    } else {
        descendants(&parents(proc).ok()?, keeper)
    };
    Some(is_one_running(proc, &inside))
}

fn is_one_running(proc: &Path, pids: &[i32]) -> bool {
    let threads = pids.iter().flat_map(|pid| threads(proc, *pid));
    threads.take(MOST).any(|stat| matches!(parse(&stat), Some((_, ProcessState::Running, _))))
}

/// What is told of each. Whoever computes may do so in any of them while the first one waits.
fn threads(proc: &Path, pid: i32) -> impl Iterator<Item = String> {
    let tasks = fs::read_dir(proc.join(pid.to_string()).join("task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| told(&task.path().join("stat")))
}

/// Of every process: its parent. Orphans inside are the keeper's, so that all are below it.
pub(crate) fn parents(proc: &Path) -> std::io::Result<BTreeMap<i32, i32>> {
    let mut parents = BTreeMap::new();
    for entry in fs::read_dir(proc)? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // One that is gone by now is nobody's.
        if let Some((_, _, parent)) = stat(proc, pid) {
            parents.insert(pid, parent);
        }
    }
    Ok(parents)
}

/// In the order of their ids.
pub(crate) fn descendants(parents: &BTreeMap<i32, i32>, of: i32) -> Vec<i32> {
    let mut children = BTreeMap::<i32, Vec<i32>>::new();
    for (pid, parent) in parents {
        children.entry(*parent).or_default().push(*pid);
    }
    let mut below = Vec::new();
    let mut to_visit = vec![of];
    while let Some(pid) = to_visit.pop() {
        // Each once: the kernel's tree has no rings, but it changes while it is read.
        let its_own = children.remove(&pid).unwrap_or_default();
        to_visit.extend(&its_own);
        below.extend(its_own);
    }
    below.sort_unstable();
    below
}

fn look(proc: &Path, pid: i32) -> Option<Doing> {
    let (name, state, _) = stat(proc, pid)?;
    let own = proc.join(pid.to_string());
    let waits_in = fs::read_to_string(own.join("wchan")).ok();
    let waits_in = waits_in.filter(|place| !place.is_empty() && place != "0");
    let reads = fs::read_to_string(own.join("syscall")).is_ok_and(|call| reads_standard_input(&call));
    let at_terminal = waits_in.as_deref() == Some(TERMINAL_READ);
    Some(Doing { name, state, waits_in, waits_for_input: reads || at_terminal, sockets: sockets(&own) })
}

/// Name, state and parent.
fn stat(proc: &Path, pid: i32) -> Option<(String, ProcessState, i32)> {
    parse(&told(&proc.join(pid.to_string()).join("stat"))?)
}

/// A name may hold anything, also what looks like the rest.
fn parse(stat: &str) -> Option<(String, ProcessState, i32)> {
    let (head, rest) = stat.rsplit_once(") ")?;
    let (_, name) = head.split_once(" (")?;
    let mut rest = rest.split(' ');
    let state = match rest.next()? {
        "R" => ProcessState::Running,
        "S" | "I" => ProcessState::Sleeping,
        "D" => ProcessState::Uninterruptible,
        "T" | "t" => ProcessState::Stopped,
        "Z" | "X" => ProcessState::Zombie,
        _ => ProcessState::Other,
    };
    Some((name.to_owned(), state, rest.next()?.parse().ok()?))
}

/// The number of the call, and its first argument.
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
    let leads_to_one = |path: &Path| {
        fs::read_link(path).is_ok_and(|target| target.to_str().is_some_and(|it| it.starts_with("socket:")))
    };
    entries.flatten().filter(|entry| leads_to_one(&entry.path())).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_pass_for_a_state() {
        let hostile = "7 (x) Z 1 (y) T 12 7 7 0 -1";
        let seen = parse(hostile);

        assert_eq!(seen, Some(("x) Z 1 (y".to_owned(), ProcessState::Stopped, 12)));
        assert_eq!(parse("7 (half"), None);
    }

    #[test]
    fn a_process_runs_if_any_of_its_threads_does() {
        let proc = tempfile::tempdir().unwrap();
        for (task, state) in [("7/task/7", "S"), ("7/task/8", "R"), ("9/task/9", "S"), ("9/task/10", "D")] {
            fs::create_dir_all(proc.path().join(task)).unwrap();
            let named = [b"7 (\xff) ", state.as_bytes(), b" 1 7 7 0 -1"].concat();
            fs::write(proc.path().join(task).join("stat"), named).unwrap();
        }

        assert!(is_one_running(proc.path(), &[9, 7]));
        assert!(!is_one_running(proc.path(), &[9, 11]));
    }

    #[test]
    fn only_what_is_below_the_keeper_is_inside_and_a_ring_ends() {
        let parents = BTreeMap::from([(10, 1), (11, 10), (12, 11), (13, 2), (20, 21), (21, 20)]);

        assert_eq!(descendants(&parents, 10), [11, 12]);
        assert_eq!(descendants(&parents, 99), [0; 0]);
    }

    #[test]
    fn a_long_chain_is_walked_once() {
        let chain: BTreeMap<i32, i32> = (1..=20_000).map(|pid| (pid, pid - 1)).collect();
        let (told, walked) = std::sync::mpsc::channel();

        std::thread::spawn(move || told.send(descendants(&chain, 0)));

        let inside = walked.recv_timeout(std::time::Duration::from_secs(2)).expect("climbed each by itself");
        assert!(inside.into_iter().eq(1..=20_000));
    }

    #[test]
    fn a_read_of_the_first_descriptor_is_a_wait_for_input() {
        assert!(reads_standard_input(&format!("{READ} 0x0 0x7ffd 0x1 0x0 0x0 0x0 0x7ffd 0x7f01")));
        assert!(!reads_standard_input(&format!("{READ} 0x3 0x7ffd 0x1")));
        assert!(!reads_standard_input("running\n"));
    }
}
