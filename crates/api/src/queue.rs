//! Those who wait for room.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Sandbox;

/// A place in the queue, also after its end for as long as records are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QueuePlace {
    pub id: String,
    pub state: QueueState,
    /// Counted from one, as long as it waits.
    pub position: Option<u64>,
    /// What it waits for, for people. None: there is room for it now, or it does not wait any more.
    pub waits_for: Option<String>,
    pub asked_at: String,
    /// It does not wait longer.
    pub until: String,
    pub ended_at: Option<String>,
    /// The sandbox that it was given.
    pub sandbox_id: Option<String>,
    /// The name that was asked for.
    pub name: Option<String>,
    /// Where to look.
    pub location: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueState {
    Waiting,
    /// It was let in: `sandbox_id` says as which sandbox.
    Admitted,
    /// Its deadline passed.
    Expired,
    /// Somebody has taken it out, or whoever asked is gone.
    Cancelled,
    /// It came to nothing for another reason than want of room.
    Refused,
    /// The server that saw to it is gone.
    Abandoned,
}

/// What a create that is not done yet has come to: a sandbox that is being made, or a place in the queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum CreatePending {
    Starting(Box<Sandbox>),
    Queued(Box<QueuePlace>),
}
