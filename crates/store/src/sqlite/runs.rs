//! What a request becomes, whoever runs it: the store's methods in terms of one way to write and one to read.

use async_trait::async_trait;
use pinfold_lifecycle::{AdmissionLimits, Effect, ExecutionId, NodeId, SandboxId, Shape, Timestamp, Totals};
use rusqlite::Connection;

use super::db::Answer;
use super::ledger::Ledger;
use super::write::{Write, Wrote};
use super::{prune, read};
use crate::{
    Change, Changes, Claim, ClaimError, CommitError, CreateError, Created, Due, FillError, Filter,
    HistoryRow, NewSandbox, Node, NodeSeen, Pruned, Retention, Row, Seq, Store, StoreError, StoredExecution,
    Version,
};

/// Runs statements: on a thread of their own, or at once.
#[async_trait]
pub(super) trait Runs: Send + Sync + 'static {
    fn id(&self) -> u128;

    async fn write(&self, write: Write) -> Answer;

    fn read<T>(
        &self,
        doing: &'static str,
        question: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError>
    where
        Self: Sized;

    /// Of a row or two.
    fn read_little<T>(
        &self,
        doing: &'static str,
        question: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError>
    where
        Self: Sized,
    {
        self.read(doing, question)
    }
}

/// A writer answers in kind; anything else is a fault of this crate.
pub(super) fn mixed_up() -> StoreError {
    StoreError::Failed {
        doing: "understand its own answer",
        source: "the writer answered another question".into(),
    }
}

#[async_trait]
impl<R: Runs> Store for R {
    fn instance(&self) -> u128 {
        self.id()
    }

    async fn create(&self, new: NewSandbox, limits: AdmissionLimits) -> Result<Created, CreateError> {
        let new = Box::new(new);
        match self.write(Write::Create { new, limits }).await? {
            Wrote::Created(created) => Ok(created),
            _ => Err(mixed_up().into()),
        }
    }

    async fn fill(&self, new: NewSandbox, size: u64, limits: AdmissionLimits) -> Result<Version, FillError> {
        let new = Box::new(new);
        match self.write(Write::Fill { new, size, limits }).await? {
            Wrote::Committed(version) => Ok(version),
            _ => Err(mixed_up().into()),
        }
    }

    async fn claim(&self, claim: Claim) -> Result<Created, ClaimError> {
        match self.write(Write::Claim(Box::new(claim))).await? {
            Wrote::Created(created) => Ok(created),
            _ => Err(mixed_up().into()),
        }
    }

    async fn waiting(
        &self,
        shape: &Shape,
        after: Option<SandboxId>,
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        self.read("find what waits in the pool", |rows| read::waiting(rows, shape, after, limit))
    }

    async fn commit(&self, change: Change) -> Result<Version, CommitError> {
        match self.write(Write::Commit(Box::new(change))).await? {
            Wrote::Committed(version) => Ok(version),
            _ => Err(mixed_up().into()),
        }
    }

    async fn load(&self, id: SandboxId) -> Result<Option<Row>, StoreError> {
        self.read_little("load a sandbox", |rows| read::load(rows, id))
    }

    async fn execution(&self, id: ExecutionId) -> Result<Option<StoredExecution>, StoreError> {
        self.read_little("read an execution", |rows| read::execution(rows, id))
    }

    async fn executions(&self, sandbox: SandboxId) -> Result<Vec<StoredExecution>, StoreError> {
        self.read("read the executions of a sandbox", |rows| read::executions(rows, sandbox))
    }

    async fn list(
        &self,
        filter: Filter,
        after: Option<SandboxId>,
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        self.read("list sandboxes", |rows| read::list(rows, filter, after, limit))
    }

    async fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<Due>, StoreError> {
        self.read("find what is due", |rows| read::due(rows, now, limit))
    }

    async fn next_deadline(&self) -> Result<Option<Timestamp>, StoreError> {
        self.read("find the next deadline", read::next_deadline)
    }

    async fn effects_of(&self, node: NodeId) -> Result<Vec<Effect>, StoreError> {
        self.read("find the work of a node", |rows| read::effects_of(rows, node))
    }

    async fn left_by(&self, node: NodeId) -> Result<Vec<SandboxId>, StoreError> {
        self.read("find what a node has left", |rows| read::left_by(rows, node))
    }

    async fn history(
        &self,
        of: Option<SandboxId>,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<HistoryRow>, StoreError> {
        self.read("read the history", |rows| read::history(rows, of, after, limit))
    }

    async fn last_record(&self, of: SandboxId) -> Result<Option<HistoryRow>, StoreError> {
        self.read_little("read the history", |rows| read::last_record(rows, of))
    }

    async fn changes(&self, seen: Seq) -> Result<Changes, StoreError> {
        self.read("find what has changed", |rows| read::changes(rows, seen))
    }

    async fn totals(&self) -> Result<Totals, StoreError> {
        self.read("read the totals", |rows| Ok(Ledger::read(rows)?.totals()))
    }

    async fn beat(&self, node: Node, now: Timestamp) -> Result<(), StoreError> {
        self.write(Write::Beat { node, now }).await?;
        Ok(())
    }

    async fn leave(&self, node: NodeId) -> Result<bool, StoreError> {
        match self.write(Write::Leave(node)).await? {
            Wrote::Left(left) => Ok(left),
            _ => Err(mixed_up()),
        }
    }

    async fn nodes(&self) -> Result<Vec<NodeSeen>, StoreError> {
        self.read("list nodes", read::nodes)
    }

    async fn forgotten_nodes(&self) -> Result<Vec<NodeId>, StoreError> {
        self.read("list forgotten nodes", read::forgotten_nodes)
    }

    async fn prune(&self, retention: Retention, limit: usize) -> Result<Pruned, StoreError> {
        match self.write(Write::Prune { retention, limit }).await? {
            Wrote::Pruned(pruned) => Ok(pruned),
            _ => Err(mixed_up()),
        }
    }

    async fn prunable(&self, retention: Retention) -> Result<u64, StoreError> {
        self.read("count old records", |rows| prune::prunable(rows, retention.records_before))
    }
}
