//! What happened to sandboxes, as numbered events.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// One step in the life of a sandbox. `seq` only grows, over all sandboxes; reading on after one gives each later one
/// once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    pub seq: u64,
    #[schema(format = DateTime)]
    pub at: String,
    pub sandbox_id: String,
    /// Which process decided it.
    pub node_id: String,
    /// What happened, such as `created`, `became_ready` or `ended`.
    pub event: String,
    /// By which such events are found in a store of data points: `sandbox:lifecycle` and `event:` with the name.
    pub indexes: Vec<String>,
    /// What belongs to it: a cause, an execution, a generation.
    #[schema(value_type = Object)]
    pub details: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventPage {
    /// The oldest first.
    pub events: Vec<Event>,
    /// What to give as `after` to read on.
    pub next: u64,
    /// There are more already.
    pub more: bool,
}
