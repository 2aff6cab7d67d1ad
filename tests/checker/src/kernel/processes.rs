//! Processes, as `/proc` shows them.

use std::fs;
use std::io;

use crate::resources::instance_name_in;

#[derive(Debug, Clone)]
pub(super) struct Process {
    pub(super) pid: i32,
    pub(super) parent: i32,
    name: String,
    groups: String,
    /// Its pid in its own pid namespace.
    namespaced_pid: i32,
}

/// Process 1 of one instance, as seen from the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    pub name: String,
    pub keeper: i32,
}

impl Instance {
    pub(super) fn of(process: &Process, base: &str) -> Option<Self> {
        let is_keeper = process.namespaced_pid == 1 && process.is_in(base);
        let mark = is_keeper.then(|| process.groups.lines().find_map(instance_name_in)).flatten()?;
        Some(Self { name: mark.to_owned(), keeper: process.pid })
    }

    /// The id of the instance's sandbox.
    #[must_use]
    pub fn sandbox(&self) -> &str {
        self.name.split('.').nth(1).unwrap_or_default()
    }
}

impl Process {
    pub(super) fn is_in(&self, base: &str) -> bool {
        self.groups.contains(base)
    }

    pub(super) fn describe(&self) -> String {
        let group = self.groups.lines().find(|line| instance_name_in(line).is_some()).unwrap_or_default();
        format!("({}, child of {}) {group}", self.name, self.parent)
    }

    /// None: the process is gone or a zombie.
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
            namespaced_pid: field("NSpid:")?.split_whitespace().last()?.parse().ok()?,
        })
    }
}

pub(super) fn all_processes() -> io::Result<Vec<Process>> {
    let entries = fs::read_dir("/proc")?;
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Ok(pids.filter_map(Process::read).collect())
}
