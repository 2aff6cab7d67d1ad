//! Effects: the physical work that a transition requests from the engine, and the fencing tokens that match results to
//! requests.

use serde::{Deserialize, Serialize};

use crate::{ExecutionId, Generation, NodeId, SandboxId, Timestamp};

/// Fencing token of one effect. It increases with every effect of a sandbox, so a higher fence was issued later. A
/// result whose fence no state awaits is late, and changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
#[serde(transparent)]
pub struct Fence(pub u64);

/// An effect under way: its fence, the node that runs it, and its deadline. It is stored inside the state that waits
/// for it, so that neither can exist without the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PendingEffect {
    pub fence: Fence,
    pub node: NodeId,
    /// When the effect was requested. A result is evidence of how things were at this time, however late it arrives.
    pub requested_at: Timestamp,
    /// When the sandbox stops waiting for the result.
    pub deadline: Timestamp,
}

/// A pending effect with everything that the engine needs to run it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Effect {
    pub sandbox: SandboxId,
    pub generation: Generation,
    pub pending: PendingEffect,
    pub kind: EffectKind,
}

/// The operation to run. Every kind may safely be run twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectKind {
    /// Create the instance.
    Launch,
    /// Run a command, a file round trip and a control ping.
    Probe,
    /// Run a control ping only.
    Ping,
    /// Observe every kind of resource that the lease may own.
    Observe,
    /// Stop the instances of this generation and all earlier ones, and prove that they are gone.
    Stop { grace_ms: u64 },
    /// Change the deadline at which the instance ends itself.
    Extend { ends_at: Timestamp },
    /// Write the execution's input files.
    PutFiles { execution: ExecutionId },
    /// Start the execution's process.
    Exec { execution: ExecutionId },
    /// Wait for the execution's process to exit.
    Watch { execution: ExecutionId },
    /// Kill the execution's process, and make sure that it is never started again.
    Kill { execution: ExecutionId },
    /// Store the execution's artifacts. Ends by itself before its deadline, with what it has.
    Collect { execution: ExecutionId },
}
