//! The provider and the store with every call recorded in a timeline.

use std::sync::Arc;

use async_trait::async_trait;
use pinfold_bench_report::now;
use pinfold_lifecycle::{
    AdmissionLimits, Effect, Evidence, ExecutionId, NodeId, Outcome, ProbeResult, QueueId, SandboxId, Shape,
    StopOutcome, Timestamp, Totals,
};
use pinfold_linux::LinuxProvider;
use pinfold_provider::{
    Capacity, DiscoverError, Discovered, ExecError, ExecRequest, Files, InstanceError, InstanceId,
    KillOutcome, Provider, ResizeError, SignalError, StartError, StartPermit, StartRequest, StdinError,
    StdinWrite, TerminalSize, Usage, WaitError, WriteResult,
};
use pinfold_store::{
    Change, Changes, ClaimError, CommitError, CreateError, Created, DueSandbox, EnqueueError, FillError,
    HistoryRow, NewQueueEntry, NewSandbox, Node, PoolClaim, Pruned, Queue, QueueOutcome, QueuePosition,
    QueueRow, RegisteredNode, Retention, Row, SandboxFilter, Seq, Store, StoreError, StoredExecution,
    Version,
};
use pinfold_store_sqlite::SqliteStore;

use crate::timeline::Timeline;

pub(crate) struct TimedProvider {
    real: Arc<LinuxProvider>,
    timeline: Arc<Timeline>,
}

impl TimedProvider {
    pub(crate) fn new(real: Arc<LinuxProvider>, timeline: Arc<Timeline>) -> Self {
        Self { real, timeline }
    }
}

/// Marks the end of the process's creation and the start of the permit.
struct TimedPermit<'a> {
    real: &'a dyn StartPermit,
    timeline: &'a Timeline,
    begun: std::time::Instant,
    asked: std::sync::Mutex<Option<std::time::Instant>>,
}

#[async_trait]
impl StartPermit for TimedPermit<'_> {
    async fn still_wanted(&self) -> bool {
        self.timeline.record("start: mark, root, groups, birth", self.begun);
        let begun = now();
        let wanted = self.real.still_wanted().await;
        self.timeline.record("start: permit", begun);
        *self.asked.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(now());
        wanted
    }
}

#[async_trait]
impl Provider for TimedProvider {
    fn name(&self) -> &'static str {
        self.real.name()
    }

    fn files(&self) -> &dyn Files {
        self.real.files()
    }

    async fn discover(&self) -> Result<Discovered, DiscoverError> {
        self.real.discover().await
    }

    async fn start(&self, start: StartRequest<'_>) -> Result<(), StartError> {
        let permit = TimedPermit {
            real: start.permit,
            timeline: &self.timeline,
            begun: now(),
            asked: std::sync::Mutex::default(),
        };
        let started = self.real.start(StartRequest { permit: &permit, ..start }).await;
        let asked = *permit.asked.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(asked) = asked {
            self.timeline.record("start: go, with the world built meanwhile", asked);
        }
        started
    }

    async fn observe(&self, sandbox: SandboxId) -> Evidence {
        self.real.observe(sandbox).await
    }

    async fn probe(&self, instance: InstanceId) -> ProbeResult {
        let begun = now();
        let result = self.real.probe(instance).await;
        self.timeline.record("first probe: control, file, command", begun);
        result
    }

    async fn ping(&self, instance: InstanceId) -> ProbeResult {
        self.real.ping(instance).await
    }

    async fn exec(&self, instance: InstanceId, exec: ExecRequest<'_>) -> Result<(), ExecError> {
        let begun = now();
        let done = self.real.exec(instance, exec).await;
        self.timeline.record("exec: fork, confine, exec", begun);
        done
    }

    async fn wait(&self, instance: InstanceId, execution: ExecutionId) -> Result<Outcome, WaitError> {
        let begun = now();
        let outcome = self.real.wait(instance, execution).await;
        self.timeline.record("wait: the rest of the command", begun);
        outcome
    }

    async fn kill(&self, instance: InstanceId, execution: ExecutionId) -> KillOutcome {
        self.real.kill(instance, execution).await
    }

    async fn signal(
        &self,
        instance: InstanceId,
        execution: ExecutionId,
        signal: i32,
    ) -> Result<(), SignalError> {
        self.real.signal(instance, execution, signal).await
    }

    async fn write_stdin(
        &self,
        instance: InstanceId,
        execution: ExecutionId,
        feed: StdinWrite<'_>,
    ) -> Result<WriteResult, StdinError> {
        self.real.write_stdin(instance, execution, feed).await
    }

    async fn resize(
        &self,
        instance: InstanceId,
        execution: ExecutionId,
        size: TerminalSize,
    ) -> Result<(), ResizeError> {
        self.real.resize(instance, execution, size).await
    }

    async fn stop(&self, instance: InstanceId, grace_ms: u64) -> StopOutcome {
        let begun = now();
        let outcome = self.real.stop(instance, grace_ms).await;
        self.timeline.record("stop: kill, removal, look", begun);
        outcome
    }

    async fn usage(&self, instance: InstanceId) -> Result<Usage, InstanceError> {
        self.real.usage(instance).await
    }

    async fn capacity(&self) -> Result<Capacity, DiscoverError> {
        self.real.capacity().await
    }

    async fn keep_alive(&self, instance: InstanceId, ends_at: Timestamp) -> Result<(), InstanceError> {
        self.real.keep_alive(instance, ends_at).await
    }
}

pub(crate) struct TimedStore {
    real: Arc<SqliteStore>,
    timeline: Arc<Timeline>,
}

impl TimedStore {
    pub(crate) fn new(real: Arc<SqliteStore>, timeline: Arc<Timeline>) -> Self {
        Self { real, timeline }
    }
}

/// Named after the first record of a commit.
fn name_of(change: &Change) -> String {
    let fact = change.transition.records.first().map(|record| format!("{:?}", record.fact));
    let fact = fact.as_deref().and_then(|fact| fact.split([' ', '{', '(']).next());
    format!("commit {}", fact.unwrap_or("with no record"))
}

#[async_trait]
impl Queue for TimedStore {
    async fn enqueue(&self, new: NewQueueEntry, limits: AdmissionLimits) -> Result<(), EnqueueError> {
        self.real.enqueue(new, limits).await
    }

    async fn is_queue_empty(&self) -> Result<bool, StoreError> {
        self.real.is_queue_empty().await
    }

    async fn queue_positions(
        &self,
        limits: AdmissionLimits,
        now: Timestamp,
    ) -> Result<Vec<QueuePosition>, StoreError> {
        self.real.queue_positions(limits, now).await
    }

    async fn queue_entry(&self, id: QueueId) -> Result<Option<QueueRow>, StoreError> {
        self.real.queue_entry(id).await
    }

    async fn end_queue_entry(
        &self,
        id: QueueId,
        end: QueueOutcome,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.real.end_queue_entry(id, end, now).await
    }

    async fn expire_queue_entries(&self, now: Timestamp) -> Result<usize, StoreError> {
        self.real.expire_queue_entries(now).await
    }
}

#[async_trait]
impl Store for TimedStore {
    fn store_id(&self) -> u128 {
        self.real.store_id()
    }

    async fn create(&self, new: NewSandbox, limits: AdmissionLimits) -> Result<Created, CreateError> {
        let begun = now();
        let created = self.real.create(new, limits).await;
        self.timeline.record("commit Created", begun);
        created
    }

    async fn fill_pool(
        &self,
        new: NewSandbox,
        size: u64,
        limits: AdmissionLimits,
    ) -> Result<Version, FillError> {
        self.real.fill_pool(new, size, limits).await
    }

    async fn claim(&self, claim: PoolClaim) -> Result<Created, ClaimError> {
        self.real.claim(claim).await
    }

    async fn pool_members(
        &self,
        shape: &Shape,
        after: Option<SandboxId>,
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        self.real.pool_members(shape, after, limit).await
    }

    async fn commit(&self, change: Change) -> Result<Version, CommitError> {
        let name = name_of(&change);
        let begun = now();
        let version = self.real.commit(change).await;
        self.timeline.record(name, begun);
        version
    }

    async fn load(&self, id: SandboxId) -> Result<Option<Row>, StoreError> {
        let begun = now();
        let row = self.real.load(id).await;
        self.timeline.record("each read of its row", begun);
        row
    }

    async fn execution(&self, id: ExecutionId) -> Result<Option<StoredExecution>, StoreError> {
        self.real.execution(id).await
    }

    async fn executions(&self, sandbox: SandboxId) -> Result<Vec<StoredExecution>, StoreError> {
        self.real.executions(sandbox).await
    }

    async fn list(
        &self,
        filter: SandboxFilter,
        after: Option<SandboxId>,
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        self.real.list(filter, after, limit).await
    }

    async fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<DueSandbox>, StoreError> {
        self.real.due(now, limit).await
    }

    async fn next_deadline(&self) -> Result<Option<Timestamp>, StoreError> {
        self.real.next_deadline().await
    }

    async fn effects_of_node(&self, node: NodeId) -> Result<Vec<Effect>, StoreError> {
        self.real.effects_of_node(node).await
    }

    async fn sandboxes_of_node(&self, node: NodeId) -> Result<Vec<SandboxId>, StoreError> {
        self.real.sandboxes_of_node(node).await
    }

    async fn history(
        &self,
        of: Option<SandboxId>,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<HistoryRow>, StoreError> {
        self.real.history(of, after, limit).await
    }

    async fn last_record(&self, of: SandboxId) -> Result<Option<HistoryRow>, StoreError> {
        self.real.last_record(of).await
    }

    async fn changes(&self, seen: Seq) -> Result<Changes, StoreError> {
        self.real.changes(seen).await
    }

    async fn totals(&self) -> Result<Totals, StoreError> {
        self.real.totals().await
    }

    async fn heartbeat(&self, node: Node, now: Timestamp) -> Result<(), StoreError> {
        self.real.heartbeat(node, now).await
    }

    async fn remove_node(&self, node: NodeId) -> Result<bool, StoreError> {
        self.real.remove_node(node).await
    }

    async fn nodes(&self) -> Result<Vec<RegisteredNode>, StoreError> {
        self.real.nodes().await
    }

    async fn unregistered_nodes(&self) -> Result<Vec<NodeId>, StoreError> {
        self.real.unregistered_nodes().await
    }

    async fn prune(&self, retention: Retention, limit: usize) -> Result<Pruned, StoreError> {
        self.real.prune(retention, limit).await
    }

    async fn count_prunable(&self, retention: Retention) -> Result<u64, StoreError> {
        self.real.count_prunable(retention).await
    }

    fn inconsistencies(&self) -> Result<Vec<String>, StoreError> {
        self.real.inconsistencies()
    }
}
