//! Processes, as `/proc` shows them.

use std::fs;
use std::io;

use super::mark_in;

#[derive(Debug, Clone)]
pub(super) struct Process {
    pub(super) pid: i32,
    pub(super) parent: i32,
    name: String,
    groups: String,
    /// Its number in its own namespace.
    inside: i32,
}

/// One sandbox's process 1 as seen from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body {
    pub mark: String,
    pub keeper: i32,
}

impl Body {
    pub(super) fn of(process: &Process, base: &str) -> Option<Self> {
        let is_keeper = process.inside == 1 && process.is_in(base);
        let mark = is_keeper.then(|| process.groups.lines().find_map(mark_in)).flatten()?;
        Some(Self { mark: mark.to_owned(), keeper: process.pid })
    }

    /// The sandbox that it belongs to.
    #[must_use]
    pub fn sandbox(&self) -> &str {
        self.mark.split('.').nth(1).unwrap_or_default()
    }
}

impl Process {
    pub(super) fn is_in(&self, base: &str) -> bool {
        self.groups.contains(base)
    }

    pub(super) fn told(&self) -> String {
        let group = self.groups.lines().find(|line| mark_in(line).is_some()).unwrap_or_default();
        format!("({}, child of {}) {group}", self.name, self.parent)
    }

    /// None: it is gone, or has ended and is not reaped yet.
    fn read(pid: i32) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        if matches!(field("State:")?.chars().next()?, 'Z' | 'X') {
            return None;
        }
        Some(Self {
            pid,
            parent: field("PPid:")?.parse().ok()?,
            name: field("Name:")?.to_owned(),
            groups: fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?,
            inside: field("NSpid:")?.split_whitespace().last()?.parse().ok()?,
        })
    }
}

pub(super) fn all_processes() -> io::Result<Vec<Process>> {
    let entries = fs::read_dir("/proc")?;
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Ok(pids.filter_map(Process::read).collect())
}
