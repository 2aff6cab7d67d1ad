//! Finding the processes of an execution that has no control group: process 1 sees all of `/proc`, and each process
//! there has the view of control groups that its execution was given.

use std::fs;
use std::io;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

use crate::process::told;

/// How often it is looked in one turn whether nothing is left. The next turn is some milliseconds away.
const TRIES: usize = 4;

/// All processes with this mark, in no order. Those that have ended have none.
pub(crate) fn find(mark: u64) -> io::Result<Vec<Pid>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| Pid::from_raw(name.parse().ok()?)) else { continue };
        if mark_of(&entry.path()) == Some(mark) {
            found.push(pid);
        }
    }
    Ok(found)
}

/// Kills all processes with this mark, and says whether it is certain that there was none.
///
/// Not found is not gone: who forks and exits may be over when its turn comes, and its child not yet listed. So nothing
/// is left only if it is so twice in a row, and no process was numbered meanwhile. Whoever the second look missed had
/// its number before the first, and so had a parent at work on it then, whom that look has seen.
pub(crate) fn end(mark: u64) -> bool {
    for _ in 0..TRIES {
        let last = last_number();
        if !(kill(mark) && kill(mark)) {
            return false;
        }
        if last.is_some() && last == last_number() {
            return true;
        }
    }
    false
}

/// One look. Whether it found nobody; one that failed did not.
fn kill(mark: u64) -> bool {
    let Ok(found) = find(mark) else { return false };
    for process in &found {
        // It may have ended meanwhile.
        let _ = kill_process(*process, Signal::KILL);
    }
    found.is_empty()
}

/// A process may live on without its first thread, which then tells nothing. All threads have one mark: nothing inside
/// can change it.
fn mark_of(process: &Path) -> Option<u64> {
    let of = |task: &Path| number(&fs::read_link(task.join("ns/cgroup")).ok()?);
    of(process).or_else(|| {
        let threads = fs::read_dir(process.join("task")).ok()?;
        threads.flatten().find_map(|thread| of(&thread.path()))
    })
}

/// Out of `cgroup:[4026531835]`.
fn number(link: &Path) -> Option<u64> {
    link.to_str()?.strip_prefix("cgroup:[")?.strip_suffix(']')?.parse().ok()
}

/// The last process id that was given to anybody here, thread or process.
fn last_number() -> Option<u64> {
    last_number_of(&fs::read_to_string("/proc/loadavg").ok()?)
}

/// Out of `0.10 0.20 0.30 1/80 4711`.
fn last_number_of(load: &str) -> Option<u64> {
    load.split_whitespace().next_back()?.parse().ok()
}

/// What a process and the children it has waited for have used.
pub(crate) fn cpu_ms(pid: Pid) -> Option<u64> {
    cpu_ms_of(&told(format!("/proc/{}/stat", pid.as_raw_nonzero()).as_ref())?)
}

/// Out of a process's `stat`.
pub(crate) fn cpu_ms_of(stat: &str) -> Option<u64> {
    // Names may hold anything, so what counts begins after the last bracket: state is field 3, utime field 14.
    let fields = &stat[stat.rfind(')')? + 1..];
    let ticks = fields.split_whitespace().skip(11).take(4).filter_map(|field| field.parse::<u64>().ok());
    Some(ticks.sum::<u64>() * 1_000 / TICKS_A_SECOND)
}

/// What every Linux tells programs, whatever it counts by itself.
const TICKS_A_SECOND: u64 = 100;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    #[test]
    fn a_process_is_found_by_its_mark() {
        let own = fs::metadata("/proc/self/ns/cgroup").unwrap().ino();

        let found = find(own).unwrap();

        assert!(found.contains(&rustix::process::getpid()), "{found:?}");
    }

    #[test]
    fn a_process_without_its_first_thread_has_the_mark_of_another() {
        let process = tempfile::tempdir().unwrap();
        let task = process.path().join("task");
        fs::create_dir_all(task.join("7")).unwrap();
        fs::create_dir_all(task.join("8/ns")).unwrap();
        symlink("cgroup:[42]", task.join("8/ns/cgroup")).unwrap();

        assert_eq!(mark_of(process.path()), Some(42));
        assert_eq!(mark_of(&task.join("7")), None);
    }

    #[test]
    fn the_last_number_given_out_is_the_last_field_of_the_load() {
        assert_eq!(last_number_of("0.10 0.20 0.30 1/80 4711\n"), Some(4711));
        assert_eq!(last_number_of("\n"), None);
    }
}
