//! The store behind the gates, which can be slow.

use std::sync::Arc;

use async_trait::async_trait;
use pinfold_lifecycle::{
    AdmissionLimits, Effect, ExecutionId, NodeId, PlaceId, SandboxId, Shape, Timestamp, Totals,
};
use pinfold_store::{
    Change, Changes, Claim, ClaimError, CommitError, CreateError, Created, Due, FillError, Filter,
    HistoryRow, JoinError, NewPlace, NewSandbox, Node, NodeSeen, Place, PlaceEnd, Pruned, Queue, Retention,
    Row, Seq, Standing, Store, StoreError, StoredExecution, Version,
};

use super::Guard;
use super::gates::{Call, Gates};
use super::slowness::Slowness;

pub(crate) struct GatedStore {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) gates: Arc<Gates>,
    pub(crate) slowness: Arc<Slowness>,
    pub(crate) without: Option<Guard>,
}

impl GatedStore {
    async fn gated<T>(&self, call: Call, work: impl Future<Output = T>) -> T {
        self.gates.around(call, self.slowness.around(work)).await
    }
}

/// None of these is a point to die at: the storm asks for no places in the queue.
#[async_trait]
impl Queue for GatedStore {
    async fn join(&self, new: NewPlace, limits: AdmissionLimits) -> Result<(), JoinError> {
        self.slowness.around(self.inner.join(new, limits)).await
    }

    async fn is_queue_empty(&self) -> Result<bool, StoreError> {
        self.slowness.around(self.inner.is_queue_empty()).await
    }

    async fn line(&self, limits: AdmissionLimits, now: Timestamp) -> Result<Vec<Standing>, StoreError> {
        self.slowness.around(self.inner.line(limits, now)).await
    }

    async fn place(&self, id: PlaceId) -> Result<Option<Place>, StoreError> {
        self.slowness.around(self.inner.place(id)).await
    }

    async fn end_place(&self, id: PlaceId, end: PlaceEnd, now: Timestamp) -> Result<bool, StoreError> {
        self.slowness.around(self.inner.end_place(id, end, now)).await
    }

    async fn end_overdue(&self, now: Timestamp) -> Result<usize, StoreError> {
        self.slowness.around(self.inner.end_overdue(now)).await
    }
}

#[async_trait]
impl Store for GatedStore {
    fn instance(&self) -> u128 {
        self.inner.instance()
    }

    async fn create(&self, new: NewSandbox, limits: AdmissionLimits) -> Result<Created, CreateError> {
        self.gated(Call::Create, self.inner.create(new, limits)).await
    }

    async fn fill(&self, new: NewSandbox, size: u64, limits: AdmissionLimits) -> Result<Version, FillError> {
        self.gated(Call::Fill, self.inner.fill(new, size, limits)).await
    }

    async fn claim(&self, claim: Claim) -> Result<Created, ClaimError> {
        self.gated(Call::Claim, self.inner.claim(claim)).await
    }

    async fn waiting(
        &self,
        shape: &Shape,
        after: Option<SandboxId>,
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        self.slowness.around(self.inner.waiting(shape, after, limit)).await
    }

    async fn commit(&self, change: Change) -> Result<Version, CommitError> {
        self.gated(Call::Commit, self.inner.commit(change)).await
    }

    async fn load(&self, id: SandboxId) -> Result<Option<Row>, StoreError> {
        self.slowness.around(self.inner.load(id)).await
    }

    async fn execution(&self, id: ExecutionId) -> Result<Option<StoredExecution>, StoreError> {
        self.slowness.around(self.inner.execution(id)).await
    }

    async fn executions(&self, sandbox: SandboxId) -> Result<Vec<StoredExecution>, StoreError> {
        self.slowness.around(self.inner.executions(sandbox)).await
    }

    async fn list(
        &self,
        filter: Filter,
        after: Option<SandboxId>,
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        self.slowness.around(self.inner.list(filter, after, limit)).await
    }

    async fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<Due>, StoreError> {
        if self.without == Some(Guard::Deadlines) {
            return Ok(Vec::new());
        }
        self.slowness.around(self.inner.due(now, limit)).await
    }

    async fn next_deadline(&self) -> Result<Option<Timestamp>, StoreError> {
        self.slowness.around(self.inner.next_deadline()).await
    }

    async fn effects_of(&self, node: NodeId) -> Result<Vec<Effect>, StoreError> {
        self.slowness.around(self.inner.effects_of(node)).await
    }

    async fn left_by(&self, node: NodeId) -> Result<Vec<SandboxId>, StoreError> {
        self.slowness.around(self.inner.left_by(node)).await
    }

    async fn history(
        &self,
        of: Option<SandboxId>,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<HistoryRow>, StoreError> {
        self.slowness.around(self.inner.history(of, after, limit)).await
    }

    async fn last_record(&self, of: SandboxId) -> Result<Option<HistoryRow>, StoreError> {
        self.slowness.around(self.inner.last_record(of)).await
    }

    async fn changes(&self, seen: Seq) -> Result<Changes, StoreError> {
        self.slowness.around(self.inner.changes(seen)).await
    }

    async fn totals(&self) -> Result<Totals, StoreError> {
        self.slowness.around(self.inner.totals()).await
    }

    async fn beat(&self, node: Node, now: Timestamp) -> Result<(), StoreError> {
        self.slowness.around(self.inner.beat(node, now)).await
    }

    async fn leave(&self, node: NodeId) -> Result<bool, StoreError> {
        self.gated(Call::Leave, self.inner.leave(node)).await
    }

    async fn nodes(&self) -> Result<Vec<NodeSeen>, StoreError> {
        self.slowness.around(self.inner.nodes()).await
    }

    async fn forgotten_nodes(&self) -> Result<Vec<NodeId>, StoreError> {
        self.slowness.around(self.inner.forgotten_nodes()).await
    }

    async fn prune(&self, retention: Retention, limit: usize) -> Result<Pruned, StoreError> {
        self.slowness.around(self.inner.prune(retention, limit)).await
    }

    async fn prunable(&self, retention: Retention) -> Result<u64, StoreError> {
        self.slowness.around(self.inner.prunable(retention)).await
    }
}
