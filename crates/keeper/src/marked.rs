//! Finding the processes of an execution that has no control group: process 1 sees all of `/proc`, and each process
//! there has the view of control groups that its execution was given.

use std::fs;
use std::path::Path;

use rustix::process::Pid;

/// All processes with this mark, in no order. Those that have ended have none.
pub(crate) fn find(mark: u64) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| Pid::from_raw(name.parse().ok()?)) else { continue };
        let link = fs::read_link(entry.path().join("ns/cgroup"));
        if link.ok().and_then(|link| number(&link)) == Some(mark) {
            found.push(pid);
        }
    }
    found
}

/// Out of `cgroup:[4026531835]`.
pub(crate) fn number(link: &Path) -> Option<u64> {
    link.to_str()?.strip_prefix("cgroup:[")?.strip_suffix(']')?.parse().ok()
}

/// What a process and the children it has waited for have used.
pub(crate) fn cpu_ms(pid: Pid) -> Option<u64> {
    cpu_ms_of(&fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?)
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
