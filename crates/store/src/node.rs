//! Nodes: processes that run an engine and know each other through the store.

use pinfold_lifecycle::{NodeId, Timestamp};
use serde::{Deserialize, Serialize};

/// One run of one process. On the same host, `boot_id`, `pid` and `start_ticks` show whether it still lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    pub id: NodeId,
    pub host: String,
    pub boot_id: String,
    pub pid: u32,
    /// When the process started, in the kernel's ticks since boot. The kernel reuses a pid, but not this pair.
    pub start_ticks: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisteredNode {
    pub node: Node,
    pub heartbeat_at: Timestamp,
}
