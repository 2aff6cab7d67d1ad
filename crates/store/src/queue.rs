//! Those who wait for room, in the order of their arrival. Beside [`crate::Store`], whose transactions that create look
//! at it: who waits is not overtaken by who does not.

use async_trait::async_trait;
use pinfold_lifecycle::{
    AdmissionLimits, Demand, Held, NodeId, PlaceId, Quota, SandboxId, Timestamp, TokenId,
};
use serde::{Deserialize, Serialize};

use crate::{JoinError, StoreError};

/// Where it is remembered who waits. The same promises hold as for [`crate::Store`].
#[async_trait]
pub trait Queue: Send + Sync + 'static {
    /// Takes a place behind all others. What would never fit is refused.
    async fn join(&self, new: NewPlace, limits: AdmissionLimits) -> Result<(), JoinError>;

    /// Whether nobody waits, not even somebody who is overdue. Cheap.
    async fn is_queue_empty(&self) -> Result<bool, StoreError>;

    /// Those who wait now, in their order, and what each waits for.
    async fn line(&self, limits: AdmissionLimits, now: Timestamp) -> Result<Vec<Standing>, StoreError>;

    /// One place, also after its end.
    async fn place(&self, id: PlaceId) -> Result<Option<Place>, StoreError>;

    /// Ends a place that waits; says whether it did.
    async fn end_place(&self, id: PlaceId, end: PlaceEnd, now: Timestamp) -> Result<bool, StoreError>;

    /// Ends those whose time is up, and those whose node is not known any more; says how many.
    async fn end_overdue(&self, now: Timestamp) -> Result<usize, StoreError>;
}

/// Somebody who is about to wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewPlace {
    pub id: PlaceId,
    /// Whoever sees to it. When that is gone, so is the place.
    pub node: NodeId,
    pub asked_at: Timestamp,
    pub until: Timestamp,
    pub demand: Demand,
    pub quotas: Vec<Quota>,
    pub asked_by: Option<TokenId>,
    /// For people: the name of the sandbox, if it is to have one.
    pub name: Option<String>,
}

/// A place in the queue, as long as it is remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub new: NewPlace,
    /// How often somebody behind it was let in at its expense.
    pub passed: u32,
    /// None: it waits.
    pub end: Option<(Timestamp, PlaceEnd)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlaceEnd {
    Admitted(SandboxId),
    /// Its deadline passed.
    Expired,
    /// Somebody has taken it out.
    Cancelled,
    /// It came to nothing for another reason than want of room.
    Refused,
    /// Whoever saw to it is gone.
    Abandoned,
}

/// One who waits, and for what. None: there is room for it now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    pub place: Place,
    /// Counted from one.
    pub position: u64,
    pub held: Option<Held>,
}
