//! Create requests that wait for room, in the order of their arrival. The transactions of [`crate::Store`] that create
//! a sandbox read the queue: a new request does not overtake one that waits and fits.

use async_trait::async_trait;
use pinfold_lifecycle::{
    AdmissionLimits, Demand, NodeId, QueueId, Quota, SandboxId, Timestamp, TokenId, WaitReason,
};
use serde::{Deserialize, Serialize};

use crate::{EnqueueError, StoreError};

/// The queue of create requests. Durability and ordering are those of [`crate::Store`].
#[async_trait]
pub trait Queue: Send + Sync + 'static {
    /// Adds an entry at the end. A request that exceeds the limits even on an empty host is refused.
    async fn enqueue(&self, new: NewQueueEntry, limits: AdmissionLimits) -> Result<(), EnqueueError>;

    /// Whether no entry waits, those past their deadline included. Cheap.
    async fn is_queue_empty(&self) -> Result<bool, StoreError>;

    /// The waiting entries in their order, with what each waits for.
    async fn queue_positions(
        &self,
        limits: AdmissionLimits,
        now: Timestamp,
    ) -> Result<Vec<QueuePosition>, StoreError>;

    /// One entry, also after its end.
    async fn queue_entry(&self, id: QueueId) -> Result<Option<QueueRow>, StoreError>;

    /// Ends a waiting entry; returns whether it did.
    async fn end_queue_entry(
        &self,
        id: QueueId,
        outcome: QueueOutcome,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Ends entries whose deadline has passed and entries of nodes that are no longer registered; returns how many.
    async fn expire_queue_entries(&self, now: Timestamp) -> Result<usize, StoreError>;
}

/// A request that is about to wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewQueueEntry {
    pub id: QueueId,
    /// The node that serves the request. The entry ends with it.
    pub owner_node: NodeId,
    pub requested_at: Timestamp,
    pub deadline: Timestamp,
    pub demand: Demand,
    pub quotas: Vec<Quota>,
    pub requested_by: Option<TokenId>,
    /// The name of the sandbox, to be shown to people.
    pub name: Option<String>,
}

/// An entry of the queue, waiting or ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueRow {
    pub new: NewQueueEntry,
    /// How often a later request was admitted first and took some of what this one is short of.
    pub times_overtaken: u32,
    /// None: it waits.
    pub outcome: Option<(Timestamp, QueueOutcome)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueOutcome {
    Admitted(SandboxId),
    /// Its deadline passed.
    Expired,
    /// A user removed it.
    Cancelled,
    /// The create failed for another reason than lack of room.
    Refused,
    /// Its node is gone.
    Abandoned,
}

/// A waiting entry and its position in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuePosition {
    pub entry: QueueRow,
    /// Counted from one.
    pub position: u64,
    /// None: there is room for it now.
    pub wait_reason: Option<WaitReason>,
}
