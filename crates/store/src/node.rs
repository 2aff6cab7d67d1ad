//! Processes that run an engine, as they know each other through the store.

use pinfold_lifecycle::{NodeId, Timestamp};
use serde::{Deserialize, Serialize};

/// One run of one process. On the same host the last three tell whether it still lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    pub id: NodeId,
    pub host: String,
    pub boot_id: String,
    pub pid: u32,
    /// When the process began, in the kernel's own ticks since boot: a pid is used again, this pair is not.
    pub started: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSeen {
    pub node: Node,
    pub heartbeat_at: Timestamp,
}
