//! The outcome of really looking. A look that failed is `unknown`, never `absent`.

use serde::{Deserialize, Serialize};

use crate::{ExecutionId, Generation, Outcome, Receipt, ReceiptCheck, Timestamp};

/// What a look at every kind of thing a lease may own has found.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// Each kind of thing was looked at, and none is there.
    Absent(Vec<ReceiptCheck>),
    Present(Vec<BodySeen>),
    Unknown {
        why: String,
    },
}

/// One body, or what is left of one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BodySeen {
    pub generation: Generation,
    /// All its parts are there and its keeper answers. Half-made and half-removed bodies are not whole.
    pub whole: bool,
    pub executions: Vec<ExecutionSeen>,
    /// When it last used CPU or talked to the outside, judged from outside.
    pub last_busy_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ExecutionSeen {
    pub execution: ExecutionId,
    pub seen: Seen,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Seen {
    Running { last_activity_at: Timestamp },
    Ended(Outcome),
}

/// What a probe has found.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Probed {
    Passed,
    Failed(ProbeFailure),
    /// The probe itself could not be run.
    Unknown {
        why: String,
    },
}

/// Which part of a probe failed. `why` is concrete: a missing mount is named by its path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeFailure {
    Exec { why: String },
    Files { why: String },
    Control { why: String },
}

/// What one attempt to stop came to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopOutcome {
    /// Looked at afterwards, and nothing is left.
    Gone(Box<Receipt>),
    StillPresent {
        what: String,
    },
    Unknown {
        why: String,
    },
}
