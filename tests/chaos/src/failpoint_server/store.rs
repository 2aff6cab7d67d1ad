//! The store with failpoints and injected latency.

use std::sync::Arc;

use async_trait::async_trait;
use pinfold_lifecycle::{
    AdmissionLimits, Effect, ExecutionId, NodeId, QueueId, SandboxId, Shape, Timestamp, Totals,
};
use pinfold_store::{
    Change, Changes, ClaimError, CommitError, CreateError, Created, DueSandbox, EnqueueError, FillError,
    HistoryRow, NewQueueEntry, NewSandbox, Node, PoolClaim, Pruned, Queue, QueueOutcome, QueuePosition,
    QueueRow, RegisteredNode, Retention, Row, SandboxFilter, Seq, Store, StoreError, StoredExecution,
    Version,
};

use super::Guard;
use super::failpoints::{Call, Failpoints};
use super::latency::InjectedLatency;

pub(crate) struct FailpointStore {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) failpoints: Arc<Failpoints>,
    pub(crate) latency: Arc<InjectedLatency>,
    pub(crate) without: Option<Guard>,
}

impl FailpointStore {
    async fn with_failpoint<T>(&self, call: Call, work: impl Future<Output = T>) -> T {
        self.failpoints.around(call, self.latency.around(work)).await
    }
}

/// No failpoints here: the load does not use the queue.
#[async_trait]
impl Queue for FailpointStore {
    async fn enqueue(&self, new: NewQueueEntry, limits: AdmissionLimits) -> Result<(), EnqueueError> {
        self.latency.around(self.inner.enqueue(new, limits)).await
    }

    async fn is_queue_empty(&self) -> Result<bool, StoreError> {
        self.latency.around(self.inner.is_queue_empty()).await
    }

    async fn queue_positions(
        &self,
        limits: AdmissionLimits,
        now: Timestamp,
    ) -> Result<Vec<QueuePosition>, StoreError> {
        self.latency.around(self.inner.queue_positions(limits, now)).await
    }

    async fn queue_entry(&self, id: QueueId) -> Result<Option<QueueRow>, StoreError> {
        self.latency.around(self.inner.queue_entry(id)).await
    }

    async fn end_queue_entry(
        &self,
        id: QueueId,
        end: QueueOutcome,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.latency.around(self.inner.end_queue_entry(id, end, now)).await
    }

    async fn expire_queue_entries(&self, now: Timestamp) -> Result<usize, StoreError> {
        self.latency.around(self.inner.expire_queue_entries(now)).await
    }
}

#[async_trait]
impl Store for FailpointStore {
    fn store_id(&self) -> u128 {
        self.inner.store_id()
    }

    async fn create(&self, new: NewSandbox, limits: AdmissionLimits) -> Result<Created, CreateError> {
        self.with_failpoint(Call::Create, self.inner.create(new, limits)).await
    }

    async fn fill_pool(
        &self,
        new: NewSandbox,
        size: u64,
        limits: AdmissionLimits,
    ) -> Result<Version, FillError> {
        self.with_failpoint(Call::Fill, self.inner.fill_pool(new, size, limits)).await
    }

    async fn claim(&self, claim: PoolClaim) -> Result<Created, ClaimError> {
        self.with_failpoint(Call::Claim, self.inner.claim(claim)).await
    }

    async fn pool_members(
        &self,
        shape: &Shape,
        after: Option<SandboxId>,
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        self.latency.around(self.inner.pool_members(shape, after, limit)).await
    }

    async fn commit(&self, change: Change) -> Result<Version, CommitError> {
        self.with_failpoint(Call::Commit, self.inner.commit(change)).await
    }

    async fn load(&self, id: SandboxId) -> Result<Option<Row>, StoreError> {
        self.latency.around(self.inner.load(id)).await
    }

    async fn execution(&self, id: ExecutionId) -> Result<Option<StoredExecution>, StoreError> {
        self.latency.around(self.inner.execution(id)).await
    }

    async fn executions(&self, sandbox: SandboxId) -> Result<Vec<StoredExecution>, StoreError> {
        self.latency.around(self.inner.executions(sandbox)).await
    }

    async fn list(
        &self,
        filter: SandboxFilter,
        after: Option<SandboxId>,
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        self.latency.around(self.inner.list(filter, after, limit)).await
    }

    async fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<DueSandbox>, StoreError> {
        if self.without == Some(Guard::Deadlines) {
            return Ok(Vec::new());
        }
        self.latency.around(self.inner.due(now, limit)).await
    }

    async fn next_deadline(&self) -> Result<Option<Timestamp>, StoreError> {
        self.latency.around(self.inner.next_deadline()).await
    }

    async fn effects_of_node(&self, node: NodeId) -> Result<Vec<Effect>, StoreError> {
        self.latency.around(self.inner.effects_of_node(node)).await
    }

    async fn sandboxes_of_node(&self, node: NodeId) -> Result<Vec<SandboxId>, StoreError> {
        self.latency.around(self.inner.sandboxes_of_node(node)).await
    }

    async fn history(
        &self,
        of: Option<SandboxId>,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<HistoryRow>, StoreError> {
        self.latency.around(self.inner.history(of, after, limit)).await
    }

    async fn last_record(&self, of: SandboxId) -> Result<Option<HistoryRow>, StoreError> {
        self.latency.around(self.inner.last_record(of)).await
    }

    async fn changes(&self, seen: Seq) -> Result<Changes, StoreError> {
        self.latency.around(self.inner.changes(seen)).await
    }

    async fn totals(&self) -> Result<Totals, StoreError> {
        self.latency.around(self.inner.totals()).await
    }

    async fn heartbeat(&self, node: Node, now: Timestamp) -> Result<(), StoreError> {
        self.latency.around(self.inner.heartbeat(node, now)).await
    }

    async fn remove_node(&self, node: NodeId) -> Result<bool, StoreError> {
        self.with_failpoint(Call::Leave, self.inner.remove_node(node)).await
    }

    async fn nodes(&self) -> Result<Vec<RegisteredNode>, StoreError> {
        self.latency.around(self.inner.nodes()).await
    }

    async fn unregistered_nodes(&self) -> Result<Vec<NodeId>, StoreError> {
        self.latency.around(self.inner.unregistered_nodes()).await
    }

    async fn prune(&self, retention: Retention, limit: usize) -> Result<Pruned, StoreError> {
        self.latency.around(self.inner.prune(retention, limit)).await
    }

    async fn count_prunable(&self, retention: Retention) -> Result<u64, StoreError> {
        self.latency.around(self.inner.count_prunable(retention)).await
    }

    fn inconsistencies(&self) -> Result<Vec<String>, StoreError> {
        self.inner.inconsistencies()
    }
}
