//! Fakes of the clock, ids, node liveness and provider faults, controlled by the test.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use pinfold_engine::{ArtifactCollector, Clock, Ids, Liveness, NodeLiveness, file_path};
use pinfold_lifecycle::{ExecutionId, NodeId, Timestamp};
use pinfold_provider::fake::{Call, CallPlan, Fault, FaultPlan};
use pinfold_provider::{Files, InstanceId};
use pinfold_store::{Node, RegisteredNode, StoredExecution};
use tokio::sync::watch;
use tokio::time::Instant;

/// An arbitrary start time.
pub(crate) const START: Timestamp = Timestamp(1_700_000_000_000);

/// A virtual clock. Pausing it suspends one process, like SIGSTOP: no sleep returns.
#[derive(Clone)]
pub(crate) struct TestClock {
    began: Instant,
    paused: watch::Sender<bool>,
}

impl TestClock {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), paused: watch::Sender::new(false) }
    }

    /// The same time in another process, paused separately.
    pub(crate) fn of_another_process(&self) -> Self {
        Self { began: self.began, paused: watch::Sender::new(false) }
    }

    pub(crate) fn pause(&self) {
        self.paused.send_replace(true);
    }

    pub(crate) fn go_on(&self) {
        self.paused.send_replace(false);
    }
}

#[async_trait]
impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        START.after_ms(u64::try_from(self.began.elapsed().as_millis()).unwrap())
    }

    async fn sleep_until(&self, at: Timestamp) {
        while self.now() < at {
            tokio::time::sleep(Duration::from_millis(at.ms_since(self.now()))).await;
        }
        let mut paused = self.paused.subscribe();
        paused.wait_for(|paused| !paused).await.unwrap();
    }
}

#[derive(Default)]
pub(crate) struct CountingIds {
    last: AtomicU64,
}

impl Ids for CountingIds {
    fn fresh(&self, now: Timestamp) -> u128 {
        let time = u128::from(u64::try_from(now.0).unwrap()) << 80;
        time | u128::from(self.last.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// Every node is alive until the test says otherwise.
#[derive(Default)]
pub(crate) struct TestLiveness {
    states: Mutex<BTreeMap<NodeId, Liveness>>,
}

impl TestLiveness {
    pub(crate) fn declare_dead(&self, node: NodeId) {
        self.states.lock().unwrap().insert(node, Liveness::Dead);
    }

    /// Reboots the host: all known nodes are dead.
    pub(crate) fn reboot(&self) {
        for fate in self.states.lock().unwrap().values_mut() {
            *fate = Liveness::DeadByReboot;
        }
    }
}

impl NodeLiveness for TestLiveness {
    fn this_node(&self, id: NodeId) -> Node {
        self.states.lock().unwrap().entry(id).or_insert(Liveness::Alive);
        Node { id, host: "fixture".into(), boot_id: "first".into(), pid: 1, start_ticks: 1 }
    }

    fn liveness_of(&self, other: &RegisteredNode, _now: Timestamp, _dead_after_ms: u64) -> Liveness {
        let states = self.states.lock().unwrap();
        states.get(&other.node.id).copied().unwrap_or(Liveness::Alive)
    }
}

/// No faults, except those the test plans.
pub(crate) struct TestFaults {
    clock: TestClock,
    next: Mutex<Vec<(Call, CallPlan)>>,
    lasting: Mutex<Vec<(Call, CallPlan)>>,
    calls: Mutex<Vec<(Call, Timestamp)>>,
}

impl TestFaults {
    pub(crate) fn over(clock: TestClock) -> Arc<Self> {
        Arc::new(Self { clock, next: Mutex::default(), lasting: Mutex::default(), calls: Mutex::default() })
    }

    /// Plans the next unplanned call of this kind.
    pub(crate) fn next(&self, call: Call, plan: CallPlan) {
        self.next.lock().unwrap().push((call, plan));
    }

    /// Plans every call of this kind, until `clear`.
    pub(crate) fn always(&self, call: Call, plan: CallPlan) {
        self.lasting.lock().unwrap().push((call, plan));
    }

    pub(crate) fn clear(&self) {
        self.lasting.lock().unwrap().clear();
    }

    /// How often the provider was called this way.
    pub(crate) fn calls(&self, call: Call) -> usize {
        let calls = self.calls.lock().unwrap();
        calls.iter().filter(|(made, _)| *made == call).count()
    }
}

impl FaultPlan for TestFaults {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn sleep_ms(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let (clock, until) = (self.clock.clone(), self.clock.now().after_ms(ms));
        Box::pin(async move { clock.sleep_until(until).await })
    }

    fn plan_call(&self, call: Call) -> CallPlan {
        self.calls.lock().unwrap().push((call, self.now()));
        let mut next = self.next.lock().unwrap();
        if let Some(index) = next.iter().position(|(foretold, _)| *foretold == call) {
            return next.remove(index).1;
        }
        let lasting = self.lasting.lock().unwrap();
        let foretold = lasting.iter().find(|(foretold, _)| *foretold == call);
        foretold.map(|(_, plan)| *plan).unwrap_or_default()
    }
}

/// Longer than any timeout.
const FOR_EVER_MS: u64 = 10 * 86_400_000;

pub(crate) fn fault(fault: Fault) -> CallPlan {
    CallPlan { fault: Some(fault), ..CallPlan::default() }
}

/// A call that hangs before it does anything.
pub(crate) fn slow(before_ms: u64) -> CallPlan {
    CallPlan { before_ms, ..CallPlan::default() }
}

/// A call that hangs half-way.
pub(crate) fn halfway(halfway_ms: u64) -> CallPlan {
    CallPlan { halfway_ms, ..CallPlan::default() }
}

/// A call whose answer is delayed.
pub(crate) fn answered_after(after_ms: u64) -> CallPlan {
    CallPlan { after_ms, ..CallPlan::default() }
}

pub(crate) fn hangs() -> CallPlan {
    slow(FOR_EVER_MS)
}

/// Keeps artifacts in memory.
#[derive(Default)]
pub(crate) struct TestArtifacts {
    kept: Mutex<BTreeMap<(ExecutionId, String), Vec<u8>>>,
    calls: AtomicU64,
    hangs: AtomicBool,
}

impl TestArtifacts {
    /// From now on no collection ends.
    pub(crate) fn hang(&self, hangs: bool) {
        self.hangs.store(hangs, Ordering::SeqCst);
    }

    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    pub(crate) fn of(&self, execution: ExecutionId, path: &str) -> Option<Vec<u8>> {
        self.kept.lock().unwrap().get(&(execution, path.to_owned())).cloned()
    }
}

#[async_trait]
impl ArtifactCollector for TestArtifacts {
    async fn collect(
        &self,
        files: &dyn Files,
        instance: InstanceId,
        stored: &StoredExecution,
        _until: Timestamp,
    ) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        if self.hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        for path in &stored.command.execution_files.artifacts {
            let at = file_path(&stored.command, path);
            let Ok(mut content) = files.read(instance, at.as_bytes(), 0, u64::MAX).await else { continue };
            if let Ok(Some(bytes)) = content.pieces.next().await {
                self.kept.lock().unwrap().insert((stored.execution.id, path.clone()), bytes);
            }
        }
    }
}
