//! Time, ids and the census of one run: the seams through which the engine sees the world.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use pinfold_engine::{Census, Clock, Fate, Ids};
use pinfold_lifecycle::{NodeId, Timestamp};
use pinfold_store::{Node, NodeSeen};
use tokio::time::Instant;

use crate::gate::Gate;

/// Virtual time, with jumps.
pub(crate) struct SimClock {
    began: Instant,
    jumped_ms: AtomicI64,
}

/// Some morning.
const DAWN: i64 = 1_700_000_000_000;

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
        Timestamp(DAWN + run + self.jumped_ms.load(Ordering::Relaxed))
    }

    async fn sleep_until(&self, at: Timestamp) {
        // In short naps, so that a jump ahead is noticed.
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

/// Who lives. One that is paused may be taken for dead, as a silent node on another host would be.
#[derive(Default)]
pub(crate) struct Roster {
    gates: Mutex<BTreeMap<NodeId, (Arc<Gate>, u64)>>,
    boot: AtomicU64,
}

impl Roster {
    pub(crate) fn reboot(&self) {
        self.boot.fetch_add(1, Ordering::Relaxed);
    }

    fn boot(&self) -> u64 {
        self.boot.load(Ordering::Relaxed)
    }
}

pub(crate) struct SimCensus {
    pub(crate) roster: Arc<Roster>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) doubts_the_paused: bool,
}

impl Census for SimCensus {
    fn me(&self, id: NodeId) -> Node {
        let mut gates = self.roster.gates.lock().unwrap_or_else(PoisonError::into_inner);
        gates.entry(id).or_insert_with(|| (self.gate.clone(), self.roster.boot()));
        Node { id, host: "host".into(), boot_id: self.roster.boot().to_string(), pid: 1, started: 1 }
    }

    fn fate_of(&self, other: &NodeSeen, _now: Timestamp, _dead_after_ms: u64) -> Fate {
        let gates = self.roster.gates.lock().unwrap_or_else(PoisonError::into_inner);
        match gates.get(&other.node.id) {
            Some((_, boot)) if *boot != self.roster.boot() => Fate::DeadByRestart,
            Some((gate, _)) if gate.has_crashed() => Fate::Dead,
            Some((gate, _)) if gate.is_paused() && self.doubts_the_paused => Fate::Dead,
            Some(_) => Fate::Alive,
            None => Fate::Dead,
        }
    }
}
