//! The seam between the engine and whatever keeps its rows.

use async_trait::async_trait;
use pinfold_lifecycle::{AdmissionLimits, Effect, ExecutionId, NodeId, SandboxId, Shape, Timestamp, Totals};

use crate::{
    Change, Changes, Claim, ClaimError, CommitError, CreateError, Created, Due, FillError, Filter,
    HistoryRow, NewSandbox, Node, NodeSeen, Pruned, Queue, Retention, Row, Seq, StoreError, StoredExecution,
    Version,
};

/// Where sandboxes are remembered. Any number of processes may use one store at once. A write that is answered
/// with success is durable; one that is answered with `Unclear` may or may not have happened, and reading the
/// row again tells.
#[async_trait]
pub trait Store: Queue + Send + Sync + 'static {
    /// The id of this store, in every mark of every body it has ever leased.
    fn instance(&self) -> u128;

    /// Writes a new sandbox with its lease, if there is room for it in the same transaction.
    async fn create(&self, new: NewSandbox, limits: AdmissionLimits) -> Result<Created, CreateError>;

    /// Writes a new body that waits in the pool, if fewer than `size` of its shape do, if nobody waits in the queue, and
    /// if there is room for it and for one more.
    async fn fill(&self, new: NewSandbox, size: u64, limits: AdmissionLimits) -> Result<Version, FillError>;

    /// Gives a body that waits in the pool to somebody, if nobody else has changed it meanwhile and quotas allow it.
    async fn claim(&self, claim: Claim) -> Result<Created, ClaimError>;

    /// Bodies that wait in the pool, those that are being prepared too, in pages that begin after `after`.
    async fn waiting(
        &self,
        shape: &Shape,
        after: Option<SandboxId>,
        limit: usize,
    ) -> Result<Vec<Row>, StoreError>;

    /// Writes the next state of a sandbox, if nobody else has changed it meanwhile.
    async fn commit(&self, change: Change) -> Result<Version, CommitError>;

    async fn load(&self, id: SandboxId) -> Result<Option<Row>, StoreError>;

    /// One execution, also after its end and after the end of its sandbox.
    async fn execution(&self, id: ExecutionId) -> Result<Option<StoredExecution>, StoreError>;

    /// All executions of a sandbox, the oldest first.
    async fn executions(&self, sandbox: SandboxId) -> Result<Vec<StoredExecution>, StoreError>;

    /// Sandboxes in the order of their ids, in pages that begin after `after`.
    async fn list(
        &self,
        filter: Filter,
        after: Option<SandboxId>,
        limit: usize,
    ) -> Result<Vec<Row>, StoreError>;

    /// What is overdue, the longest first.
    async fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<Due>, StoreError>;

    async fn next_deadline(&self) -> Result<Option<Timestamp>, StoreError>;

    /// Work that this node has been asked to do.
    async fn effects_of(&self, node: NodeId) -> Result<Vec<Effect>, StoreError>;

    /// Sandboxes that this node owns or works for.
    async fn left_by(&self, node: NodeId) -> Result<Vec<SandboxId>, StoreError>;

    /// The history of one sandbox or of all, in pages that begin after `after`.
    async fn history(
        &self,
        of: Option<SandboxId>,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<HistoryRow>, StoreError>;

    /// The last that was recorded of a sandbox.
    async fn last_record(&self, of: SandboxId) -> Result<Option<HistoryRow>, StoreError>;

    /// Which sandboxes anybody has changed since `seen`. Cheap when none has.
    async fn changes(&self, seen: Seq) -> Result<Changes, StoreError>;

    async fn totals(&self) -> Result<Totals, StoreError>;

    /// Makes a node known, or shows that it still lives: it may have been taken for dead and forgotten.
    async fn beat(&self, node: Node, now: Timestamp) -> Result<(), StoreError>;

    /// Forgets a node that owns nothing and has nothing to do; says whether it did.
    async fn leave(&self, node: NodeId) -> Result<bool, StoreError>;

    async fn nodes(&self) -> Result<Vec<NodeSeen>, StoreError>;

    /// Those who own something or have something to do and are not among the nodes: what they wrote last came after
    /// they were forgotten.
    async fn forgotten_nodes(&self) -> Result<Vec<NodeId>, StoreError>;

    /// Deletes what is past retention: records of settled sandboxes only, their executions, history, and
    /// idempotency keys. At most `limit` sandboxes, and of everything else as much as nobody has to wait for long.
    async fn prune(&self, retention: Retention, limit: usize) -> Result<Pruned, StoreError>;

    /// How many sandboxes' records are past retention and would go.
    async fn prunable(&self, retention: Retention) -> Result<u64, StoreError>;
}
