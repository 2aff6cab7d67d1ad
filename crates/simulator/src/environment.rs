//! The simulated clock, ids and node liveness of a run.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use pinfold_engine::{Clock, Ids, Liveness, NodeLiveness};
use pinfold_lifecycle::{NodeId, Timestamp};
use pinfold_store::{Node, RegisteredNode};
use tokio::time::Instant;

use crate::gate::Gate;

/// Virtual time, with jumps.
pub(crate) struct SimClock {
    began: Instant,
    jumped_ms: AtomicI64,
}

/// Start of the virtual clock, in milliseconds since the Unix epoch.
const START_TIME: i64 = 1_700_000_000_000;

impl SimClock {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), jumped_ms: AtomicI64::new(0) }
    }

    pub(crate) fn jump(&self, ms: i64) {
        self.jumped_ms.fetch_add(ms, Ordering::Relaxed);
    }
}

#[async_trait]
impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        let run = i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX);
        Timestamp(START_TIME + run + self.jumped_ms.load(Ordering::Relaxed))
    }

    async fn sleep_until(&self, at: Timestamp) {
        // Sleeps in short steps, so that a jump ahead is noticed.
        while self.now() < at {
            let nap = at.ms_since(self.now()).min(5_000);
            tokio::time::sleep(Duration::from_millis(nap)).await;
        }
    }
}

#[derive(Default)]
pub(crate) struct SimIds {
    last: AtomicU64,
}

impl Ids for SimIds {
    fn fresh(&self, now: Timestamp) -> u128 {
        let time = u128::from(u64::try_from(now.0).unwrap_or(0)) << 80;
        time | u128::from(self.last.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// The nodes of a run and whether they live. A paused node may be taken for dead, like a silent node on another host.
#[derive(Default)]
pub(crate) struct NodeRegistry {
    gates: Mutex<BTreeMap<NodeId, (Arc<Gate>, u64)>>,
    boot: AtomicU64,
}

impl NodeRegistry {
    pub(crate) fn reboot(&self) {
        self.boot.fetch_add(1, Ordering::Relaxed);
    }

    fn boot(&self) -> u64 {
        self.boot.load(Ordering::Relaxed)
    }
}

pub(crate) struct SimLiveness {
    pub(crate) registry: Arc<NodeRegistry>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) treats_paused_as_dead: bool,
}

impl NodeLiveness for SimLiveness {
    fn this_node(&self, id: NodeId) -> Node {
        let mut gates = self.registry.gates.lock().unwrap_or_else(PoisonError::into_inner);
        gates.entry(id).or_insert_with(|| (self.gate.clone(), self.registry.boot()));
        Node { id, host: "host".into(), boot_id: self.registry.boot().to_string(), pid: 1, start_ticks: 1 }
    }

    fn liveness_of(&self, other: &RegisteredNode, _now: Timestamp, _dead_after_ms: u64) -> Liveness {
        let gates = self.registry.gates.lock().unwrap_or_else(PoisonError::into_inner);
        match gates.get(&other.node.id) {
            Some((_, boot)) if *boot != self.registry.boot() => Liveness::DeadByReboot,
            Some((gate, _)) if gate.has_crashed() => Liveness::Dead,
            Some((gate, _)) if gate.is_paused() && self.treats_paused_as_dead => Liveness::Dead,
            Some(_) => Liveness::Alive,
            None => Liveness::Dead,
        }
    }
}
