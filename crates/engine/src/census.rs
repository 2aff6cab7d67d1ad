//! Who this process is, and whether another one still lives.

use std::fs;
use std::io;

use pinfold_lifecycle::{NodeId, Timestamp};
use pinfold_store::{Node, NodeSeen};
use rustix::io::Errno;

pub trait Census: Send + Sync + 'static {
    /// This process, under the id it goes by in this run.
    fn me(&self, id: NodeId) -> Node;

    /// What became of another node. Only what is proven dead is adopted.
    fn fate_of(&self, other: &NodeSeen, now: Timestamp, dead_after_ms: u64) -> Fate;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Alive,
    Dead,
    /// Its host was restarted since: its bodies are gone too.
    DeadByRestart,
}

/// Knows this host from /proc. On the same host a process that is gone is dead at once; of another host only
/// the heartbeat tells.
#[derive(Debug)]
pub struct HostCensus {
    host: String,
    boot_id: String,
    pid: u32,
    started: u64,
}

#[derive(Debug, thiserror::Error)]
#[error("could not read `{path}` to learn which process this is")]
pub struct HostCensusError {
    path: &'static str,
    source: io::Error,
}

impl HostCensus {
    pub fn take() -> Result<Self, HostCensusError> {
        let read = |path| fs::read_to_string(path).map_err(|source| HostCensusError { path, source });
        let machine = fs::read_to_string("/etc/machine-id").unwrap_or_default();
        let name = read("/proc/sys/kernel/hostname")?;
        let host = if machine.trim().is_empty() { name.trim() } else { machine.trim() }.to_owned();
        let boot_id = read("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
        let pid = std::process::id();
        let started = started(&read("/proc/self/stat")?)
            .ok_or(HostCensusError { path: "/proc/self/stat", source: io::ErrorKind::InvalidData.into() })?;
        Ok(Self { host, boot_id, pid, started })
    }

    #[must_use]
    pub fn boot_id(&self) -> &str {
        &self.boot_id
    }
}

impl Census for HostCensus {
    fn me(&self, id: NodeId) -> Node {
        Node {
            id,
            host: self.host.clone(),
            boot_id: self.boot_id.clone(),
            pid: self.pid,
            started: self.started,
        }
    }

    fn fate_of(&self, other: &NodeSeen, now: Timestamp, dead_after_ms: u64) -> Fate {
        let NodeSeen { node, heartbeat_at } = other;
        if node.host != self.host {
            let silent = now.ms_since(*heartbeat_at) > dead_after_ms;
            return if silent { Fate::Dead } else { Fate::Alive };
        }
        if node.boot_id != self.boot_id {
            return Fate::DeadByRestart;
        }
        fate(&stat(node.pid), node.started)
    }
}

/// What the kernel tells of a process.
fn stat(pid: u32) -> io::Result<String> {
    fs::read_to_string(format!("/proc/{pid}/stat"))
}

/// A look that failed proves nobody dead.
fn fate(stat: &io::Result<String>, began: u64) -> Fate {
    let is_gone = |error: &io::Error| matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::SRCH));
    match stat {
        Ok(stat) if started(stat) == Some(began) => Fate::Alive,
        Err(error) if !is_gone(error) => Fate::Alive,
        Ok(_) | Err(_) => Fate::Dead,
    }
}

/// When a process began, in ticks since boot. A zombie has ended: it does nothing any more.
fn started(stat: &str) -> Option<u64> {
    // The name is in brackets and may hold anything, brackets too.
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000);

    fn seen(node: Node) -> NodeSeen {
        NodeSeen { node, heartbeat_at: NOW }
    }

    #[test]
    fn this_process_is_alive_and_its_pid_with_another_start_is_not() {
        let census = HostCensus::take().unwrap();
        let me = census.me(NodeId(1));

        let reused = Node { started: me.started + 1, ..me.clone() };

        assert_eq!(census.fate_of(&seen(me), NOW, 10), Fate::Alive);
        assert_eq!(census.fate_of(&seen(reused), NOW, 10), Fate::Dead);
    }

    #[test]
    fn a_look_that_failed_proves_nobody_dead() {
        let told = |error: Errno| fate(&Err(error.into()), 7);

        assert_eq!([Errno::MFILE, Errno::NFILE, Errno::NOMEM].map(told), [Fate::Alive; 3]);
        assert_eq!([Errno::NOENT, Errno::SRCH].map(told), [Fate::Dead; 2]);
    }

    #[test]
    fn a_node_of_an_earlier_boot_is_dead_with_its_bodies() {
        let census = HostCensus::take().unwrap();

        let earlier = Node { boot_id: "earlier".into(), ..census.me(NodeId(1)) };

        assert_eq!(census.fate_of(&seen(earlier), NOW, 10), Fate::DeadByRestart);
    }

    #[test]
    fn a_node_of_another_host_lives_by_its_heartbeat() {
        let census = HostCensus::take().unwrap();
        let other = seen(Node { host: "elsewhere".into(), ..census.me(NodeId(1)) });

        assert_eq!(census.fate_of(&other, NOW.after_ms(10), 10), Fate::Alive);
        assert_eq!(census.fate_of(&other, NOW.after_ms(11), 10), Fate::Dead);
    }
}
