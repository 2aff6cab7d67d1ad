//! A store around another one, for tests and benchmarks that delay, fail or record calls.

use async_trait::async_trait;
use pinfold_lifecycle::{
    AdmissionLimits, Effect, ExecutionId, NodeId, QueueId, SandboxId, Shape, Timestamp, Totals,
};

use crate::{
    Change, Changes, ClaimError, CommitError, CreateError, Created, DueSandbox, EnqueueError, FillError,
    HistoryRow, NewQueueEntry, NewSandbox, Node, PoolClaim, Pruned, Queue, QueueOutcome, QueuePosition,
    QueueRow, RegisteredNode, Retention, Row, SandboxFilter, Seq, Store, StoreError, StoredExecution,
    Version,
};

/// Defines [`StoreCall`] and [`StoreLayer`], and implements [`Queue`] and [`Store`] for every layer.
macro_rules! store_layer {
    ($($trait:ident {
        accessors { $($accessor:ident -> $accessed:ty;)* }
        calls { $($kind:ident $call:ident: $method:ident($($argument:ident: $type:ty),*) -> $answer:ty;)* }
    })*) => {
        /// An asynchronous method of [`Queue`] or [`Store`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum StoreCall {
            $($($call,)*)*
        }

        impl StoreCall {
            pub fn kind(self) -> CallKind {
                match self {
                    $($(Self::$call => CallKind::$kind,)*)*
                }
            }
        }

        /// A [`Store`] that passes its calls on to another one. A layer that treats all calls alike overrides
        /// [`around`](Self::around); an overridden method of a single call uses `around` only if it calls it.
        #[async_trait]
        pub trait StoreLayer: Send + Sync + 'static {
            fn inner(&self) -> &dyn Store;

            /// Runs one call of the inner store.
            async fn around<T: Send, E: From<StoreError> + Send>(
                &self,
                _call: StoreCall,
                work: impl Future<Output = Result<T, E>> + Send,
            ) -> Result<T, E> {
                work.await
            }

            $($(async fn $method(&self, $($argument: $type),*) -> $answer {
                self.around(StoreCall::$call, self.inner().$method($($argument),*)).await
            })*)*
        }

        $(#[async_trait]
        impl<L: StoreLayer> $trait for L {
            $(fn $accessor(&self) -> $accessed {
                self.inner().$accessor()
            })*

            $(async fn $method(&self, $($argument: $type),*) -> $answer {
                StoreLayer::$method(self, $($argument),*).await
            })*
        })*
    };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    Read,
    Write,
}

store_layer! {
    Queue {
        accessors {}
        calls {
            Write Enqueue: enqueue(new: NewQueueEntry, limits: AdmissionLimits) -> Result<(), EnqueueError>;
            Read IsQueueEmpty: is_queue_empty() -> Result<bool, StoreError>;
            Read QueuePositions: queue_positions(
                limits: AdmissionLimits, now: Timestamp
            ) -> Result<Vec<QueuePosition>, StoreError>;
            Read QueueEntry: queue_entry(id: QueueId) -> Result<Option<QueueRow>, StoreError>;
            Write EndQueueEntry: end_queue_entry(
                id: QueueId, outcome: QueueOutcome, now: Timestamp
            ) -> Result<bool, StoreError>;
            Write ExpireQueueEntries: expire_queue_entries(now: Timestamp) -> Result<usize, StoreError>;
        }
    }
    Store {
        accessors {
            store_id -> u128;
            problem -> Option<String>;
            inconsistencies -> Result<Vec<String>, StoreError>;
        }
        calls {
            Write Create: create(new: NewSandbox, limits: AdmissionLimits) -> Result<Created, CreateError>;
            Write FillPool: fill_pool(
                new: NewSandbox, size: u64, limits: AdmissionLimits
            ) -> Result<Version, FillError>;
            Write Claim: claim(claim: PoolClaim) -> Result<Created, ClaimError>;
            Read PoolMembers: pool_members(
                shape: &Shape, after: Option<SandboxId>, limit: usize
            ) -> Result<Vec<Row>, StoreError>;
            Write Commit: commit(change: Change) -> Result<Version, CommitError>;
            Read Load: load(id: SandboxId) -> Result<Option<Row>, StoreError>;
            Read Execution: execution(id: ExecutionId) -> Result<Option<StoredExecution>, StoreError>;
            Read Executions: executions(sandbox: SandboxId) -> Result<Vec<StoredExecution>, StoreError>;
            Read List: list(
                filter: SandboxFilter, after: Option<SandboxId>, limit: usize
            ) -> Result<Vec<Row>, StoreError>;
            Read Due: due(now: Timestamp, limit: usize) -> Result<Vec<DueSandbox>, StoreError>;
            Read NextDeadline: next_deadline() -> Result<Option<Timestamp>, StoreError>;
            Read EffectsOfNode: effects_of_node(node: NodeId) -> Result<Vec<Effect>, StoreError>;
            Read SandboxesOfNode: sandboxes_of_node(node: NodeId) -> Result<Vec<SandboxId>, StoreError>;
            Read History: history(
                of: Option<SandboxId>, after: Seq, limit: usize
            ) -> Result<Vec<HistoryRow>, StoreError>;
            Read LastRecord: last_record(of: SandboxId) -> Result<Option<HistoryRow>, StoreError>;
            Read Changes: changes(seen: Seq) -> Result<Changes, StoreError>;
            Read Totals: totals() -> Result<Totals, StoreError>;
            Write Heartbeat: heartbeat(node: Node, now: Timestamp) -> Result<(), StoreError>;
            Write RemoveNode: remove_node(node: NodeId) -> Result<bool, StoreError>;
            Read Nodes: nodes() -> Result<Vec<RegisteredNode>, StoreError>;
            Read UnregisteredNodes: unregistered_nodes() -> Result<Vec<NodeId>, StoreError>;
            Write Prune: prune(retention: Retention, limit: usize) -> Result<Pruned, StoreError>;
            Read CountPrunable: count_prunable(retention: Retention) -> Result<u64, StoreError>;
        }
    }
}
