//! The store behind one node's gate. Writes fail at random, and every successful commit is checked.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use pinfold_lifecycle::{
    AdmissionLimits, Effect, ExecutionId, Guards, NodeId, QueueId, SandboxId, Shape, Timestamp, Totals,
};
use pinfold_store::{
    Change, Changes, ClaimError, CommitError, CreateError, Created, DueSandbox, EnqueueError, FillError,
    HistoryRow, NewQueueEntry, NewSandbox, Node, PoolClaim, Pruned, Queue, QueueOutcome, QueuePosition,
    QueueRow, RegisteredNode, Retention, Row, SandboxFilter, Seq, Store, StoreError, StoredExecution,
    Version,
};

use crate::checker::Checker;
use crate::gate::Gate;
use crate::random::Random;

/// Faults of the disk, shared by all nodes.
#[derive(Default)]
pub(crate) struct DiskFaults {
    pub(crate) full: AtomicBool,
    pub(crate) faults_per_mille: AtomicU64,
}

pub(crate) struct GatedStore {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) disk: Arc<DiskFaults>,
    pub(crate) random: Random,
    pub(crate) checker: Arc<Checker>,
    pub(crate) guards: Guards,
}

/// What happens to a write.
enum WriteFault {
    Written,
    NotWritten(StoreError),
    /// Written, but an error is returned.
    WrittenWithError,
}

impl GatedStore {
    fn next_write(&self) -> WriteFault {
        if self.disk.full.load(Ordering::Relaxed) {
            return WriteFault::NotWritten(StoreError::DiskFull { source: "the disk is full".into() });
        }
        if !self.random.happens(self.disk.faults_per_mille.load(Ordering::Relaxed)) {
            return WriteFault::Written;
        }
        match self.random.below(3) {
            0 => WriteFault::NotWritten(StoreError::Busy { source: "the database is locked".into() }),
            1 => WriteFault::NotWritten(outcome_unknown()),
            _ => WriteFault::WrittenWithError,
        }
    }

    async fn write<T, E: From<StoreError>>(&self, write: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        self.gate.pass().await;
        let answer = match self.next_write() {
            WriteFault::Written => write.await,
            WriteFault::NotWritten(error) => Err(error.into()),
            WriteFault::WrittenWithError => write.await.and_then(|_| Err(outcome_unknown().into())),
        };
        self.gate.pass().await;
        answer
    }

    async fn read<T>(&self, read: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        self.gate.pass().await;
        let answer = read.await;
        self.gate.pass().await;
        answer
    }

    /// Guards are not stored. A run without a guard must remove it from every policy it reads.
    fn apply_guards(&self, mut row: Row) -> Row {
        if let Row::Readable(stored) = &mut row {
            Arc::make_mut(&mut stored.policy).guards = self.guards;
        }
        row
    }
}

fn outcome_unknown() -> StoreError {
    StoreError::OutcomeUnknown { source: "the disk failed".into() }
}

#[async_trait]
impl Queue for GatedStore {
    async fn enqueue(&self, new: NewQueueEntry, limits: AdmissionLimits) -> Result<(), EnqueueError> {
        self.write(self.inner.enqueue(new, limits)).await
    }

    async fn is_queue_empty(&self) -> Result<bool, StoreError> {
        self.read(self.inner.is_queue_empty()).await
    }

    async fn queue_positions(
        &self,
        limits: AdmissionLimits,
        now: Timestamp,
    ) -> Result<Vec<QueuePosition>, StoreError> {
        self.read(self.inner.queue_positions(limits, now)).await
    }

    async fn queue_entry(&self, id: QueueId) -> Result<Option<QueueRow>, StoreError> {
        self.read(self.inner.queue_entry(id)).await
    }

    async fn end_queue_entry(
        &self,
        id: QueueId,
        end: QueueOutcome,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.write(self.inner.end_queue_entry(id, end, now)).await
    }

    async fn expire_queue_entries(&self, now: Timestamp) -> Result<usize, StoreError> {
        self.write(self.inner.expire_queue_entries(now)).await
    }
}

#[async_trait]
impl Store for GatedStore {
    fn store_id(&self) -> u128 {
        self.inner.store_id()
    }

    async fn create(&self, new: NewSandbox, limits: AdmissionLimits) -> Result<Created, CreateError> {
        let (transition, policy) = (new.transition.clone(), new.policy.clone());
        self.write(async {
            let created = self.inner.create(new, limits).await?;
            if let Created::New(_) = created {
                self.checker.committed(&transition, Some(policy));
            }
            Ok(created)
        })
        .await
    }

    async fn fill_pool(
        &self,
        new: NewSandbox,
        size: u64,
        limits: AdmissionLimits,
    ) -> Result<Version, FillError> {
        let (transition, policy) = (new.transition.clone(), new.policy.clone());
        self.write(async {
            let version = self.inner.fill_pool(new, size, limits).await?;
            self.checker.committed(&transition, Some(policy));
            Ok(version)
        })
        .await
    }

    async fn claim(&self, claim: PoolClaim) -> Result<Created, ClaimError> {
        let (transition, policy) = (claim.change.transition.clone(), claim.policy.clone());
        self.write(async {
            let created = self.inner.claim(claim).await?;
            if let Created::New(_) = created {
                self.checker.claimed(&transition, &policy);
                self.checker.committed(&transition, Some(policy));
            }
            Ok(created)
        })
        .await
    }

    async fn pool_members(
        &self,
        shape: &Shape,
        after: Option<SandboxId>,
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        let rows = self.read(self.inner.pool_members(shape, after, limit)).await?;
        Ok(rows.into_iter().map(|row| self.apply_guards(row)).collect())
    }

    async fn commit(&self, change: Change) -> Result<Version, CommitError> {
        let transition = change.transition.clone();
        self.write(async {
            let version = self.inner.commit(change).await?;
            self.checker.committed(&transition, None);
            Ok(version)
        })
        .await
    }

    async fn load(&self, id: SandboxId) -> Result<Option<Row>, StoreError> {
        let row = self.read(self.inner.load(id)).await?;
        Ok(row.map(|row| self.apply_guards(row)))
    }

    async fn execution(&self, id: ExecutionId) -> Result<Option<StoredExecution>, StoreError> {
        self.read(self.inner.execution(id)).await
    }

    async fn executions(&self, sandbox: SandboxId) -> Result<Vec<StoredExecution>, StoreError> {
        self.read(self.inner.executions(sandbox)).await
    }

    async fn list(
        &self,
        filter: SandboxFilter,
        after: Option<SandboxId>,
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        let rows = self.read(self.inner.list(filter, after, limit)).await?;
        Ok(rows.into_iter().map(|row| self.apply_guards(row)).collect())
    }

    async fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<DueSandbox>, StoreError> {
        self.read(self.inner.due(now, limit)).await
    }

    async fn next_deadline(&self) -> Result<Option<Timestamp>, StoreError> {
        self.read(self.inner.next_deadline()).await
    }

    async fn effects_of_node(&self, node: NodeId) -> Result<Vec<Effect>, StoreError> {
        self.read(self.inner.effects_of_node(node)).await
    }

    async fn sandboxes_of_node(&self, node: NodeId) -> Result<Vec<SandboxId>, StoreError> {
        self.read(self.inner.sandboxes_of_node(node)).await
    }

    async fn history(
        &self,
        of: Option<SandboxId>,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<HistoryRow>, StoreError> {
        self.read(self.inner.history(of, after, limit)).await
    }

    async fn last_record(&self, of: SandboxId) -> Result<Option<HistoryRow>, StoreError> {
        self.read(self.inner.last_record(of)).await
    }

    async fn changes(&self, state: Seq) -> Result<Changes, StoreError> {
        self.read(self.inner.changes(state)).await
    }

    async fn totals(&self) -> Result<Totals, StoreError> {
        self.read(self.inner.totals()).await
    }

    async fn heartbeat(&self, node: Node, now: Timestamp) -> Result<(), StoreError> {
        self.write(self.inner.heartbeat(node, now)).await
    }

    async fn remove_node(&self, node: NodeId) -> Result<bool, StoreError> {
        self.write(self.inner.remove_node(node)).await
    }

    async fn nodes(&self) -> Result<Vec<RegisteredNode>, StoreError> {
        self.read(self.inner.nodes()).await
    }

    async fn unregistered_nodes(&self) -> Result<Vec<NodeId>, StoreError> {
        self.read(self.inner.unregistered_nodes()).await
    }

    async fn prune(&self, retention: Retention, limit: usize) -> Result<Pruned, StoreError> {
        self.write(self.inner.prune(retention, limit)).await
    }

    async fn count_prunable(&self, retention: Retention) -> Result<u64, StoreError> {
        self.read(self.inner.count_prunable(retention)).await
    }

    fn inconsistencies(&self) -> Result<Vec<String>, StoreError> {
        self.inner.inconsistencies()
    }
}
