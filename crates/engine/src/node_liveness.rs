//! Identity of this process, and liveness of other nodes' processes.

use std::fs;
use std::io;
use std::path::Path;

use pinfold_lifecycle::{NodeId, Timestamp};
use pinfold_procfs::Stat;
use pinfold_store::{Node, RegisteredNode};

pub trait NodeLiveness: Send + Sync + 'static {
    /// This process as a node, under the id of this run.
    fn this_node(&self, id: NodeId) -> Node;

    /// Liveness of another node. Only nodes proven dead are adopted.
    fn liveness_of(&self, other: &RegisteredNode, now: Timestamp, dead_after_ms: u64) -> Liveness;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    Alive,
    Dead,
    /// Its host was rebooted since, so its instances are gone too.
    DeadByReboot,
}

/// Reads /proc. On the same host a vanished process is dead at once; for another host only the heartbeat
/// counts.
#[derive(Debug)]
pub struct HostLiveness {
    host: String,
    boot_id: String,
    pid: u32,
    started: u64,
}

#[derive(Debug, thiserror::Error)]
#[error("could not read `{path}` to identify this process")]
pub struct HostLivenessError {
    path: &'static str,
    source: io::Error,
}

impl HostLiveness {
    pub fn take() -> Result<Self, HostLivenessError> {
        let read = |path| fs::read_to_string(path).map_err(|source| HostLivenessError { path, source });
        let machine = fs::read_to_string("/etc/machine-id").unwrap_or_default();
        let name = read("/proc/sys/kernel/hostname")?;
        let host = if machine.trim().is_empty() { name.trim() } else { machine.trim() }.to_owned();
        let boot_id = read("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
        let pid = std::process::id();
        let started =
            own_start_time().map_err(|source| HostLivenessError { path: "/proc/self/stat", source })?;
        Ok(Self { host, boot_id, pid, started })
    }

    #[must_use]
    pub fn boot_id(&self) -> &str {
        &self.boot_id
    }
}

impl NodeLiveness for HostLiveness {
    fn this_node(&self, id: NodeId) -> Node {
        Node {
            id,
            host: self.host.clone(),
            boot_id: self.boot_id.clone(),
            pid: self.pid,
            start_ticks: self.started,
        }
    }

    fn liveness_of(&self, other: &RegisteredNode, now: Timestamp, dead_after_ms: u64) -> Liveness {
        let RegisteredNode { node, heartbeat_at } = other;
        if node.host != self.host {
            let silent = now.ms_since(*heartbeat_at) > dead_after_ms;
            return if silent { Liveness::Dead } else { Liveness::Alive };
        }
        if node.boot_id != self.boot_id {
            return Liveness::DeadByReboot;
        }
        process_liveness(&start_time(node.pid), node.start_ticks)
    }
}

fn own_start_time() -> io::Result<u64> {
    let own = Stat::read_in(Path::new("/proc/self"))?.ok_or(io::ErrorKind::NotFound)?;
    Ok(own.start_ticks)
}

/// None: there is no such process, or it has ended.
fn start_time(pid: u32) -> io::Result<Option<u64>> {
    match i32::try_from(pid) {
        Ok(pid) => pinfold_procfs::start_time(pid),
        Err(_) => Ok(None),
    }
}

/// A failed read does not prove a process dead.
fn process_liveness(start_time: &io::Result<Option<u64>>, began: u64) -> Liveness {
    match start_time {
        Ok(start) if *start == Some(began) => Liveness::Alive,
        Ok(_) => Liveness::Dead,
        Err(_) => Liveness::Alive,
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000);

    fn seen(node: Node) -> RegisteredNode {
        RegisteredNode { node, heartbeat_at: NOW }
    }

    #[test]
    fn this_process_is_alive_and_its_pid_with_another_start_is_not() {
        let liveness = HostLiveness::take().unwrap();
        let me = liveness.this_node(NodeId(1));

        let reused = Node { start_ticks: me.start_ticks + 1, ..me.clone() };

        assert_eq!(liveness.liveness_of(&seen(me), NOW, 10), Liveness::Alive);
        assert_eq!(liveness.liveness_of(&seen(reused), NOW, 10), Liveness::Dead);
    }

    #[test]
    fn a_failed_read_does_not_prove_a_process_dead() {
        let failures = [Errno::MFILE, Errno::NFILE, Errno::NOMEM];
        let reported = |error: Errno| process_liveness(&Err(error.into()), 7);

        assert_eq!(failures.map(reported), [Liveness::Alive; 3]);
        assert_eq!([None, Some(8)].map(|start| process_liveness(&Ok(start), 7)), [Liveness::Dead; 2]);
    }

    #[test]
    fn a_node_of_an_earlier_boot_is_dead_with_its_instances() {
        let liveness = HostLiveness::take().unwrap();

        let earlier = Node { boot_id: "earlier".into(), ..liveness.this_node(NodeId(1)) };

        assert_eq!(liveness.liveness_of(&seen(earlier), NOW, 10), Liveness::DeadByReboot);
    }

    #[test]
    fn a_node_of_another_host_lives_by_its_heartbeat() {
        let liveness = HostLiveness::take().unwrap();
        let other = seen(Node { host: "elsewhere".into(), ..liveness.this_node(NodeId(1)) });

        assert_eq!(liveness.liveness_of(&other, NOW.after_ms(10), 10), Liveness::Alive);
        assert_eq!(liveness.liveness_of(&other, NOW.after_ms(11), 10), Liveness::Dead);
    }
}
