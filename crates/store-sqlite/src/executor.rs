//! The [`Store`] trait in terms of one way to write and one way to read, which an [`Executor`] provides.

use async_trait::async_trait;
use pinfold_lifecycle::{AdmissionLimits, Effect, ExecutionId, NodeId, SandboxId, Shape, Timestamp, Totals};
use rusqlite::Connection;

use crate::Sqlite;
use crate::env_seal::EnvSeal;
use crate::requests::{WriteDone, WriteRequest};
use crate::totals::TotalsRow;
use crate::write_connection::WriteAnswer;
use crate::{consistency, prune, read};
use pinfold_store::{
    Change, Changes, ClaimError, CommitError, CreateError, Created, DueSandbox, FillError, HistoryRow,
    NewSandbox, Node, PoolClaim, Pruned, RegisteredNode, Retention, Row, SandboxFilter, Seq, Store,
    StoreError, StoredExecution, Version,
};

/// Runs statements: on the writer's thread, or at once on the caller's.
#[async_trait]
pub(crate) trait Executor: Send + Sync + 'static {
    fn id(&self) -> u128;

    /// Encrypts environment variables that are written, and decrypts those that are read.
    fn env_seal(&self) -> &EnvSeal;

    /// What keeps this process from writing.
    fn problem(&self) -> Option<String>;

    async fn write(&self, write: WriteRequest) -> WriteAnswer;

    fn read<T>(
        &self,
        action: &'static str,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError>
    where
        Self: Sized;

    /// A read of one or two rows.
    fn read_few<T>(
        &self,
        action: &'static str,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError>
    where
        Self: Sized,
    {
        self.read(action, query)
    }
}

/// The writer returned the result of another kind of request: a bug of this crate.
pub(crate) fn wrong_answer() -> StoreError {
    StoreError::Failed {
        action: "use the result of a write",
        source: "the writer returned the result of another request".into(),
    }
}

fn open_rows(executor: &impl Executor, rows: Vec<Row>) -> Vec<Row> {
    rows.into_iter().map(|row| executor.env_seal().open_row(row)).collect()
}

#[async_trait]
impl<E: Executor> Store for Sqlite<E> {
    fn store_id(&self) -> u128 {
        self.executor.id()
    }

    fn problem(&self) -> Option<String> {
        self.executor.problem()
    }

    async fn create(&self, new: NewSandbox, limits: AdmissionLimits) -> Result<Created, CreateError> {
        let new = Box::new(self.executor.env_seal().seal_new(new)?);
        match self.executor.write(WriteRequest::Create { new, limits }).await? {
            WriteDone::Created(created) => Ok(created),
            _ => Err(wrong_answer().into()),
        }
    }

    async fn fill_pool(
        &self,
        new: NewSandbox,
        size: u64,
        limits: AdmissionLimits,
    ) -> Result<Version, FillError> {
        let new = Box::new(self.executor.env_seal().seal_new(new)?);
        match self.executor.write(WriteRequest::FillPool { new, size, limits }).await? {
            WriteDone::Committed(version) => Ok(version),
            _ => Err(wrong_answer().into()),
        }
    }

    async fn claim(&self, claim: PoolClaim) -> Result<Created, ClaimError> {
        let claim = self.executor.env_seal().seal_claim(claim)?;
        match self.executor.write(WriteRequest::Claim(Box::new(claim))).await? {
            WriteDone::Created(created) => Ok(created),
            _ => Err(wrong_answer().into()),
        }
    }

    async fn pool_members(
        &self,
        shape: &Shape,
        after: Option<SandboxId>,
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        let rows =
            self.executor.read("list the pool", |rows| read::pool_members(rows, shape, after, limit))?;
        Ok(open_rows(&self.executor, rows))
    }

    async fn commit(&self, change: Change) -> Result<Version, CommitError> {
        let change = self.executor.env_seal().seal_change(change)?;
        match self.executor.write(WriteRequest::Commit(Box::new(change))).await? {
            WriteDone::Committed(version) => Ok(version),
            _ => Err(wrong_answer().into()),
        }
    }

    async fn load(&self, id: SandboxId) -> Result<Option<Row>, StoreError> {
        let row = self.executor.read_few("load a sandbox", |rows| read::load(rows, id))?;
        Ok(row.map(|row| self.executor.env_seal().open_row(row)))
    }

    async fn execution(&self, id: ExecutionId) -> Result<Option<StoredExecution>, StoreError> {
        let stored = self.executor.read_few("read an execution", |rows| read::execution(rows, id))?;
        Ok(stored.map(|stored| self.executor.env_seal().open_execution(stored)))
    }

    async fn executions(&self, sandbox: SandboxId) -> Result<Vec<StoredExecution>, StoreError> {
        let stored =
            self.executor.read("read the executions of a sandbox", |rows| read::executions(rows, sandbox))?;
        Ok(stored.into_iter().map(|stored| self.executor.env_seal().open_execution(stored)).collect())
    }

    async fn list(
        &self,
        filter: SandboxFilter,
        after: Option<SandboxId>,
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        let rows = self.executor.read("list sandboxes", |rows| read::list(rows, filter, after, limit))?;
        Ok(open_rows(&self.executor, rows))
    }

    async fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<DueSandbox>, StoreError> {
        self.executor.read("find due sandboxes", |rows| read::due(rows, now, limit))
    }

    async fn next_deadline(&self) -> Result<Option<Timestamp>, StoreError> {
        self.executor.read("find the next deadline", read::next_deadline)
    }

    async fn effects_of_node(&self, node: NodeId) -> Result<Vec<Effect>, StoreError> {
        self.executor.read("find the effects of a node", |rows| read::effects_of_node(rows, node))
    }

    async fn sandboxes_of_node(&self, node: NodeId) -> Result<Vec<SandboxId>, StoreError> {
        self.executor.read("find the sandboxes of a node", |rows| read::sandboxes_of_node(rows, node))
    }

    async fn history(
        &self,
        of: Option<SandboxId>,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<HistoryRow>, StoreError> {
        self.executor.read("read the history", |rows| read::history(rows, of, after, limit))
    }

    async fn last_record(&self, of: SandboxId) -> Result<Option<HistoryRow>, StoreError> {
        self.executor.read_few("read the history", |rows| read::last_record(rows, of))
    }

    async fn changes(&self, seen: Seq) -> Result<Changes, StoreError> {
        self.executor.read("find changed sandboxes", |rows| read::changes(rows, seen))
    }

    async fn totals(&self) -> Result<Totals, StoreError> {
        self.executor.read("read the totals", |rows| Ok(TotalsRow::read(rows)?.to_totals()))
    }

    async fn heartbeat(&self, node: Node, now: Timestamp) -> Result<(), StoreError> {
        self.executor.write(WriteRequest::Heartbeat { node, now }).await?;
        Ok(())
    }

    async fn remove_node(&self, node: NodeId) -> Result<bool, StoreError> {
        match self.executor.write(WriteRequest::RemoveNode(node)).await? {
            WriteDone::NodeRemoved(left) => Ok(left),
            _ => Err(wrong_answer()),
        }
    }

    async fn nodes(&self) -> Result<Vec<RegisteredNode>, StoreError> {
        self.executor.read("list nodes", read::nodes)
    }

    async fn unregistered_nodes(&self) -> Result<Vec<NodeId>, StoreError> {
        self.executor.read("list unregistered nodes", read::unregistered_nodes)
    }

    async fn prune(&self, retention: Retention, limit: usize) -> Result<Pruned, StoreError> {
        match self.executor.write(WriteRequest::Prune { retention, limit }).await? {
            WriteDone::Pruned(pruned) => Ok(pruned),
            _ => Err(wrong_answer()),
        }
    }

    async fn count_prunable(&self, retention: Retention) -> Result<u64, StoreError> {
        self.executor.read("count old records", |rows| prune::prunable(rows, retention.records_before))
    }

    fn inconsistencies(&self) -> Result<Vec<String>, StoreError> {
        self.executor.read("compare the rows", consistency::inconsistencies)
    }
}
