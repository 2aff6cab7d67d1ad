//! The rows that the store returns.

use std::sync::Arc;

use pinfold_lifecycle::{
    Command, Execution, Generation, NodeId, Policy, Record, Sandbox, SandboxId, Spec, Timestamp,
};

/// The version of a sandbox's row. It grows with every change, comes from the same counter as [`Seq`], and grows in
/// commit order: a row that was last changed before a history record has a smaller version than the record's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub i64);

/// The number of a history record. It grows in commit order, across all sandboxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Seq(pub i64);

impl Seq {
    /// After every record, present and future.
    pub const LATEST: Self = Self(i64::MAX);
}

#[derive(Debug, Clone)]
pub enum Row {
    Readable(Box<StoredSandbox>),
    /// A row whose state cannot be parsed. It is never dropped.
    Unreadable(UnreadableRow),
}

#[derive(Debug, Clone)]
pub struct StoredSandbox {
    pub sandbox: Sandbox,
    pub spec: Arc<Spec>,
    pub policy: Arc<Policy>,
    pub version: Version,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableRow {
    pub id: SandboxId,
    pub generation: Generation,
    pub version: Version,
    pub why: String,
}

#[derive(Debug, Clone)]
pub struct StoredExecution {
    pub sandbox: SandboxId,
    pub execution: Execution,
    pub command: Arc<Command>,
    /// Why the values of the command's environment cannot be read, for example because their key is lost. The command
    /// must not be run then.
    pub unreadable_env: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SandboxFilter {
    /// Sandboxes whose instance is not proven gone.
    Present,
    /// Sandboxes that have ended and whose instance is proven gone.
    Settled,
    All,
    /// Instances of the pool that were never claimed and are not proven gone. They are not sandboxes, and none of the
    /// filters above includes them.
    Pooled,
    /// Every row whose instance is not proven gone, sandbox or pool.
    Leased,
}

/// A sandbox whose deadline has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueSandbox {
    pub id: SandboxId,
    pub owner: NodeId,
    pub deadline: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryRow {
    pub seq: Seq,
    pub sandbox: SandboxId,
    pub record: Record,
}

/// The sandboxes that changed after a number, each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes {
    pub sandboxes: Vec<SandboxId>,
    /// The number to pass to the next call.
    pub up_to: Seq,
}

/// Rows that were settled, recorded or expired before these times are past retention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    pub records_before: Timestamp,
    pub history_before: Timestamp,
    pub now: Timestamp,
}

/// The result of one prune.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pruned {
    /// Sandboxes whose records were deleted.
    pub sandboxes: usize,
    /// More rows of some kind may be past retention: prune again.
    pub more: bool,
}

impl Row {
    #[must_use]
    pub fn id(&self) -> SandboxId {
        match self {
            Self::Readable(stored) => stored.sandbox.id,
            Self::Unreadable(unreadable) => unreadable.id,
        }
    }
}
