//! The trait through which the engine reads and writes sandboxes.

use async_trait::async_trait;
use pinfold_lifecycle::{AdmissionLimits, Effect, ExecutionId, NodeId, SandboxId, Shape, Timestamp, Totals};

use crate::{
    Change, Changes, ClaimError, CommitError, CreateError, Created, DueSandbox, FillError, HistoryRow,
    NewSandbox, Node, PoolClaim, Pruned, Queue, RegisteredNode, Retention, Row, SandboxFilter, Seq,
    StoreError, StoredExecution, Version,
};

/// The database of sandboxes. Any number of processes may use one store at once.
///
/// # Durability
///
/// A write that returns success is on disk. A write that fails with [`StoreError::OutcomeUnknown`] may or may not have
/// happened: the caller reads the row again. After every other error nothing was written.
///
/// # Ordering
///
/// The versions and history numbers that a transaction takes are larger than those of every transaction that committed
/// before it, across all sandboxes and all processes. Reads see a prefix of this order: a reader that sees one number
/// sees all smaller ones.
#[async_trait]
pub trait Store: Queue + Send + Sync + 'static {
    /// The id of this store, which is part of the name of every instance it has ever leased.
    fn store_id(&self) -> u128;

    /// What keeps this process from writing to the store, as one line for operators. None: nothing is known to.
    fn problem(&self) -> Option<String> {
        None
    }

    /// Writes a new sandbox with its lease, if the same transaction finds room for it.
    async fn create(&self, new: NewSandbox, limits: AdmissionLimits) -> Result<Created, CreateError>;

    /// Writes a new instance for the pool. It is refused if `size` instances of its shape are there already, if a request
    /// waits in the queue, or if it would take the last room.
    async fn fill_pool(
        &self,
        new: NewSandbox,
        size: u64,
        limits: AdmissionLimits,
    ) -> Result<Version, FillError>;

    /// Turns an instance of the pool into a user's sandbox, if its row has not changed since and quotas allow it.
    async fn claim(&self, claim: PoolClaim) -> Result<Created, ClaimError>;

    /// Claimable instances of the pool, those that are still starting included, in pages that begin after `after`.
    async fn pool_members(
        &self,
        shape: &Shape,
        after: Option<SandboxId>,
        limit: usize,
    ) -> Result<Vec<Row>, StoreError>;

    /// Writes the next state of a sandbox, if its row has not changed since it was loaded.
    async fn commit(&self, change: Change) -> Result<Version, CommitError>;

    async fn load(&self, id: SandboxId) -> Result<Option<Row>, StoreError>;

    /// One execution, also after its end and after the end of its sandbox.
    async fn execution(&self, id: ExecutionId) -> Result<Option<StoredExecution>, StoreError>;

    /// All executions of a sandbox, the oldest first.
    async fn executions(&self, sandbox: SandboxId) -> Result<Vec<StoredExecution>, StoreError>;

    /// Sandboxes in the order of their ids, in pages that begin after `after`.
    async fn list(
        &self,
        filter: SandboxFilter,
        after: Option<SandboxId>,
        limit: usize,
    ) -> Result<Vec<Row>, StoreError>;

    /// Sandboxes whose deadline has passed, the earliest deadline first.
    async fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<DueSandbox>, StoreError>;

    async fn next_deadline(&self) -> Result<Option<Timestamp>, StoreError>;

    /// Pending effects that this node has to run.
    async fn effects_of_node(&self, node: NodeId) -> Result<Vec<Effect>, StoreError>;

    /// Sandboxes that this node owns or runs effects for.
    async fn sandboxes_of_node(&self, node: NodeId) -> Result<Vec<SandboxId>, StoreError>;

    /// The history of one sandbox or of all, oldest first, in pages that begin after `after`.
    async fn history(
        &self,
        of: Option<SandboxId>,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<HistoryRow>, StoreError>;

    /// The latest history record of a sandbox.
    async fn last_record(&self, of: SandboxId) -> Result<Option<HistoryRow>, StoreError>;

    /// The sandboxes that any process has changed after `seen`. Cheap when none has.
    async fn changes(&self, seen: Seq) -> Result<Changes, StoreError>;

    async fn totals(&self) -> Result<Totals, StoreError>;

    /// Registers a node, or renews its heartbeat. It registers again a node that was removed as dead.
    async fn heartbeat(&self, node: Node, now: Timestamp) -> Result<(), StoreError>;

    /// Removes a node that owns no sandbox and has no effects to run; returns whether it did.
    async fn remove_node(&self, node: NodeId) -> Result<bool, StoreError>;

    async fn nodes(&self) -> Result<Vec<RegisteredNode>, StoreError>;

    /// Nodes that own a sandbox or have effects to run, but are not registered: they wrote after they were removed.
    async fn unregistered_nodes(&self) -> Result<Vec<NodeId>, StoreError>;

    /// Deletes rows that are past retention: settled sandboxes with their executions, history, and idempotency keys. At
    /// most `limit` sandboxes, and a bounded number of every other kind, so that other writers do not wait for long.
    async fn prune(&self, retention: Retention, limit: usize) -> Result<Pruned, StoreError>;

    /// The number of sandboxes that [`Store::prune`] would delete.
    async fn count_prunable(&self, retention: Retention) -> Result<u64, StoreError>;

    /// Compares rows that must agree: totals with sandboxes, and columns, effects and quotas with states. Returns one
    /// line for each contradiction, and none in a consistent store.
    ///
    /// It reads every sandbox and blocks the calling thread.
    fn inconsistencies(&self) -> Result<Vec<String>, StoreError>;
}
