//! What the store gives back.

use std::sync::Arc;

use pinfold_lifecycle::{
    Command, Execution, Generation, NodeId, Policy, Record, Sandbox, SandboxId, Spec, Timestamp,
};

/// Grows with every change of a row. It is a number of the same sequence as [`Seq`]: what was changed up to a place in
/// the history has a version that is not larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub i64);

/// A place in the history. It grows with every record, across all sandboxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Seq(pub i64);

impl Seq {
    /// Wherever the history ends now.
    pub const LATEST: Self = Self(i64::MAX);
}

#[derive(Debug, Clone)]
pub enum Row {
    Readable(Box<Stored>),
    /// What is left of a row whose state cannot be read. It is never dropped.
    Unreadable(Unreadable),
}

#[derive(Debug, Clone)]
pub struct Stored {
    pub sandbox: Sandbox,
    pub spec: Arc<Spec>,
    pub policy: Arc<Policy>,
    pub version: Version,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
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
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Filter {
    /// Sandboxes whose body is not proven gone.
    Present,
    Settled,
    All,
    /// Bodies that wait in the pool, or did until their end, and are not proven gone. They are no sandboxes, and
    /// none of the above.
    Pooled,
    /// Everything whose body is not proven gone, sandbox or not.
    Leased,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
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

/// What has changed since a place in the history, each sandbox once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes {
    pub sandboxes: Vec<SandboxId>,
    pub seen: Seq,
}

/// What was settled, recorded or expired before these moments is past retention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    pub records_before: Timestamp,
    pub history_before: Timestamp,
    pub now: Timestamp,
}

/// What one turn of forgetting came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pruned {
    /// Sandboxes whose records are gone.
    pub sandboxes: usize,
    /// There may be more that is past retention, of whatever kind: ask again.
    pub more: bool,
}

impl Row {
    /// None where it cannot be read.
    #[must_use]
    pub fn owner(&self) -> Option<NodeId> {
        match self {
            Self::Readable(stored) => Some(stored.sandbox.owner),
            Self::Unreadable(_) => None,
        }
    }

    #[must_use]
    pub fn id(&self) -> SandboxId {
        match self {
            Self::Readable(stored) => stored.sandbox.id,
            Self::Unreadable(unreadable) => unreadable.id,
        }
    }
}
