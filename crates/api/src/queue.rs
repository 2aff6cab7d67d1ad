//! The admission queue: requests that wait for capacity.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Sandbox;

/// One queue entry. It stays readable after its end until retention.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QueueEntry {
    pub id: String,
    pub state: QueueState,
    /// The position, counted from 1. Null when it no longer waits.
    pub position: Option<u64>,
    /// The scarce resource, for people. Null: there is room now, or the entry no longer waits.
    pub waits_for: Option<String>,
    pub asked_at: String,
    /// The deadline: the entry expires then.
    pub until: String,
    pub ended_at: Option<String>,
    /// The sandbox that was created for it.
    pub sandbox_id: Option<String>,
    /// The requested sandbox name.
    pub name: Option<String>,
    /// The URL of the entry, or of its sandbox once admitted.
    pub location: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueState {
    Waiting,
    /// Admitted: `sandbox_id` names the sandbox.
    Admitted,
    /// The deadline passed before there was room.
    Expired,
    /// It was cancelled, or its caller disconnected.
    Cancelled,
    /// The create failed for a reason other than capacity.
    Refused,
    /// The server that handled it is gone.
    Abandoned,
}

/// The answer to a create that is not done yet: a starting sandbox, or a queue entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum CreatePending {
    Starting(Box<Sandbox>),
    Queued(Box<QueueEntry>),
}
