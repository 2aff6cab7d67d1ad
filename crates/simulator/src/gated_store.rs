//! The store behind one node's gate: writes fail now and then, and everything that succeeds is checked.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use pinfold_lifecycle::{
    AdmissionLimits, Effect, ExecutionId, Guards, NodeId, PlaceId, SandboxId, Shape, Timestamp, Totals,
};
use pinfold_store::{
    Change, Changes, Claim, ClaimError, CommitError, CreateError, Created, Due, FillError, Filter,
    HistoryRow, JoinError, NewPlace, NewSandbox, Node, NodeSeen, Place, PlaceEnd, Pruned, Queue, Retention,
    Row, Seq, Standing, Store, StoreError, StoredExecution, Version,
};

use crate::chance::Chance;
use crate::checker::Checker;
use crate::gate::Gate;

/// What is wrong with the disk, for all nodes alike.
#[derive(Default)]
pub(crate) struct Disk {
    pub(crate) full: AtomicBool,
    pub(crate) faults_per_mille: AtomicU64,
}

pub(crate) struct GatedStore {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) disk: Arc<Disk>,
    pub(crate) chance: Chance,
    pub(crate) checker: Arc<Checker>,
    pub(crate) guards: Guards,
}

/// What becomes of a write.
enum Fate {
    Written,
    NotWritten(StoreError),
    /// Written, and the answer does not say so.
    Unclear,
}

impl GatedStore {
    fn fate(&self) -> Fate {
        if self.disk.full.load(Ordering::Relaxed) {
            return Fate::NotWritten(StoreError::DiskFull { source: "the disk is full".into() });
        }
        if !self.chance.hits(self.disk.faults_per_mille.load(Ordering::Relaxed)) {
            return Fate::Written;
        }
        match self.chance.below(3) {
            0 => Fate::NotWritten(StoreError::Busy { source: "somebody holds the lock".into() }),
            1 => Fate::NotWritten(unclear()),
            _ => Fate::Unclear,
        }
    }

    async fn write<T, E: From<StoreError>>(&self, write: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        self.gate.pass().await;
        let answer = match self.fate() {
            Fate::Written => write.await,
            Fate::NotWritten(error) => Err(error.into()),
            Fate::Unclear => write.await.and_then(|_| Err(unclear().into())),
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

    /// Guards are not stored: a run without one must not find it again in what it reads.
    fn weaken(&self, mut row: Row) -> Row {
        if let Row::Readable(stored) = &mut row {
            Arc::make_mut(&mut stored.policy).guards = self.guards;
        }
        row
    }
}

fn unclear() -> StoreError {
    StoreError::Unclear { source: "the disk failed".into() }
}

#[async_trait]
impl Queue for GatedStore {
    async fn join(&self, new: NewPlace, limits: AdmissionLimits) -> Result<(), JoinError> {
        self.write(self.inner.join(new, limits)).await
    }

    async fn is_queue_empty(&self) -> Result<bool, StoreError> {
        self.read(self.inner.is_queue_empty()).await
    }

    async fn line(&self, limits: AdmissionLimits, now: Timestamp) -> Result<Vec<Standing>, StoreError> {
        self.read(self.inner.line(limits, now)).await
    }

    async fn place(&self, id: PlaceId) -> Result<Option<Place>, StoreError> {
        self.read(self.inner.place(id)).await
    }

    async fn end_place(&self, id: PlaceId, end: PlaceEnd, now: Timestamp) -> Result<bool, StoreError> {
        self.write(self.inner.end_place(id, end, now)).await
    }

    async fn end_overdue(&self, now: Timestamp) -> Result<usize, StoreError> {
        self.write(self.inner.end_overdue(now)).await
    }
}

#[async_trait]
impl Store for GatedStore {
    fn instance(&self) -> u128 {
        self.inner.instance()
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

    async fn fill(&self, new: NewSandbox, size: u64, limits: AdmissionLimits) -> Result<Version, FillError> {
        let (transition, policy) = (new.transition.clone(), new.policy.clone());
        self.write(async {
            let version = self.inner.fill(new, size, limits).await?;
            self.checker.committed(&transition, Some(policy));
            Ok(version)
        })
        .await
    }

    async fn claim(&self, claim: Claim) -> Result<Created, ClaimError> {
        let (transition, policy) = (claim.change.transition.clone(), claim.policy.clone());
        self.write(async {
            let created = self.inner.claim(claim).await?;
            if let Created::New(_) = created {
                self.checker.given_out(&transition, &policy);
                self.checker.committed(&transition, Some(policy));
            }
            Ok(created)
        })
        .await
    }

    async fn waiting(
        &self,
        shape: &Shape,
        after: Option<SandboxId>,
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        let rows = self.read(self.inner.waiting(shape, after, limit)).await?;
        Ok(rows.into_iter().map(|row| self.weaken(row)).collect())
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
        Ok(row.map(|row| self.weaken(row)))
    }

    async fn execution(&self, id: ExecutionId) -> Result<Option<StoredExecution>, StoreError> {
        self.read(self.inner.execution(id)).await
    }

    async fn executions(&self, sandbox: SandboxId) -> Result<Vec<StoredExecution>, StoreError> {
        self.read(self.inner.executions(sandbox)).await
    }

    async fn list(
        &self,
        filter: Filter,
        after: Option<SandboxId>,
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        let rows = self.read(self.inner.list(filter, after, limit)).await?;
        Ok(rows.into_iter().map(|row| self.weaken(row)).collect())
    }

    async fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<Due>, StoreError> {
        self.read(self.inner.due(now, limit)).await
    }

    async fn next_deadline(&self) -> Result<Option<Timestamp>, StoreError> {
        self.read(self.inner.next_deadline()).await
    }

    async fn effects_of(&self, node: NodeId) -> Result<Vec<Effect>, StoreError> {
        self.read(self.inner.effects_of(node)).await
    }

    async fn left_by(&self, node: NodeId) -> Result<Vec<SandboxId>, StoreError> {
        self.read(self.inner.left_by(node)).await
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

    async fn changes(&self, seen: Seq) -> Result<Changes, StoreError> {
        self.read(self.inner.changes(seen)).await
    }

    async fn totals(&self) -> Result<Totals, StoreError> {
        self.read(self.inner.totals()).await
    }

    async fn beat(&self, node: Node, now: Timestamp) -> Result<(), StoreError> {
        self.write(self.inner.beat(node, now)).await
    }

    async fn leave(&self, node: NodeId) -> Result<bool, StoreError> {
        self.write(self.inner.leave(node)).await
    }

    async fn nodes(&self) -> Result<Vec<NodeSeen>, StoreError> {
        self.read(self.inner.nodes()).await
    }

    async fn forgotten_nodes(&self) -> Result<Vec<NodeId>, StoreError> {
        self.read(self.inner.forgotten_nodes()).await
    }

    async fn prune(&self, retention: Retention, limit: usize) -> Result<Pruned, StoreError> {
        self.write(self.inner.prune(retention, limit)).await
    }

    async fn prunable(&self, retention: Retention) -> Result<u64, StoreError> {
        self.read(self.inner.prunable(retention)).await
    }
}
