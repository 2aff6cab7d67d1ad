//! Lifecycle events of sandboxes, with sequence numbers.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// One lifecycle event. `seq` grows over all sandboxes; reading after a `seq` returns each later event exactly once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    pub seq: u64,
    #[schema(format = DateTime)]
    pub at: String,
    pub sandbox_id: String,
    /// The node that recorded it.
    pub node_id: String,
    /// The event name, such as `created`, `became_ready` or `ended`.
    pub event: String,
    /// Index keys for analytics stores: `sandbox:lifecycle`, and `event:` with the name.
    pub indexes: Vec<String>,
    /// Further fields of the event: a cause, an execution, a generation.
    #[schema(value_type = Object)]
    pub details: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventPage {
    /// Oldest first.
    pub events: Vec<Event>,
    /// The value of `after` for the next page.
    pub next: u64,
    /// More events exist already.
    pub more: bool,
}
