//! Work that has been decided on: who does it, until when, and the number its answer must carry.

use serde::{Deserialize, Serialize};

use crate::{ExecutionId, Generation, NodeId, SandboxId, Timestamp};

/// Grows with every question a sandbox asks of the world, so that it is also a clock: a higher ticket was
/// asked later. An answer whose ticket nobody waits for is late, and changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
#[serde(transparent)]
pub struct Fence(pub u64);

/// One piece of work under way. It lives in the state that waits for it, so a state cannot forget its work
/// and work cannot outlive its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PendingEffect {
    pub ticket: Fence,
    pub by: NodeId,
    /// An answer is proof of how things were then, however late it comes.
    pub asked_at: Timestamp,
    /// When waiting for the answer ends, whoever was to give it.
    pub deadline: Timestamp,
}

/// A duty with all that is needed to do it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Effect {
    pub sandbox: SandboxId,
    pub generation: Generation,
    pub duty: PendingEffect,
    pub work: EffectKind,
}

/// What is to be done. All of it may be done twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectKind {
    /// Make the body.
    Launch,
    /// Run a command, a file round trip and a control ping.
    Probe,
    /// A control ping.
    Ping,
    /// Look at every kind of thing the lease may own.
    Look,
    /// End the body of this generation and earlier ones, and prove it.
    Stop { grace_ms: u64 },
    /// Move the moment at which the body ends itself.
    Extend { ends_at: Timestamp },
    /// Start the execution's process.
    Exec { execution: ExecutionId },
    /// Wait until the execution's process has ended.
    Watch { execution: ExecutionId },
    /// End the execution's process, and never start it again.
    Kill { execution: ExecutionId },
}
