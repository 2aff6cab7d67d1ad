//! One sandbox, looked at closely.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Sandbox;

/// What is recorded, what was tried, and what to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Examination {
    #[serde(flatten)]
    pub sandbox: Sandbox,
    /// The nearest first is not promised.
    pub due: Vec<Due>,
    /// Nothing could be tried of what has ended.
    pub probes: Vec<Probe>,
    /// The likeliest cause first. None: all is well as far as can be seen.
    pub troubles: Vec<Trouble>,
    pub verdict: String,
}

/// Something that is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Trouble {
    pub kind: TroubleKind,
    /// What was seen, in figures and names.
    pub saw: String,
    pub means: String,
    /// The command that puts it right.
    pub resolve: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TroubleKind {
    /// Its record cannot be read.
    Unreadable,
    /// It could not be proven gone.
    Quarantined,
    /// Process 1, which keeps it, is gone.
    KeeperGone,
    /// Process 1 is there and does not answer.
    KeeperSilent,
    /// Processes in it were stopped by a signal.
    Stopped,
    /// Processes in it wait in the kernel, where no signal reaches them.
    Uninterruptible,
    DiskFull,
    ProcessesFull,
    /// A directory or a mount that everything needs is not there, or files cannot be written.
    PlaceMissing,
    /// No command can be run in it.
    CommandFails,
    /// Memory grows towards its limit, or is near it.
    Leaking,
    /// Near 100 % of the processor.
    Busy,
    /// Something in it reads, and nobody writes.
    WaitsForInput,
    /// Near 0 % of the processor, and silent.
    Hung,
    /// Its log tells of a network that it does not have.
    NoNetwork,
    /// Its log tells of a service outside that does not answer.
    ServiceHangs,
    /// Its log tells of a recursion without end.
    EndlessRecursion,
    /// Its log tells of too little memory.
    OutOfMemory,
    /// More than one of its commands took too long.
    RepeatedTimeouts,
    /// Something about it could not be seen.
    Unseen,
}

/// What happens by itself, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Due {
    pub what: String,
    #[schema(format = DateTime)]
    pub at: String,
    pub left_ms: u64,
}

/// One thing that was tried, with its raw answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Probe {
    pub probe: String,
    pub passed: bool,
    pub answer: String,
    pub took_ms: f64,
}
