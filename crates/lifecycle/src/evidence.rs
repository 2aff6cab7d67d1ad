//! Evidence: the results of observations, probes and stops. A failed observation is `Unknown`, never `Absent`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{ExecutionId, Generation, Outcome, Receipt, ReceiptCheck, Timestamp};

/// The result of observing every kind of resource that a lease may own.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// Every kind of resource was observed, and none exists.
    Absent(Vec<ReceiptCheck>),
    Present(Vec<InstanceObservation>),
    Unknown {
        why: String,
    },
}

/// One instance, or the remains of one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct InstanceObservation {
    pub generation: Generation,
    /// All its parts exist and its keeper answers. False for instances that are partly created or partly removed.
    pub whole: bool,
    /// How its keeper ended, where the keeper is gone: "was killed by signal 9".
    pub keeper_end: Option<String>,
    pub executions: Vec<ExecutionObservation>,
    /// When it last used CPU or network, as measured from outside.
    pub last_busy_at: Option<Timestamp>,
}

/// One execution that the instance knows.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ExecutionObservation {
    pub execution: ExecutionId,
    pub process: ProcessObservation,
}

/// The process of an execution, as observed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessObservation {
    Running { last_activity_at: Timestamp },
    Ended(Outcome),
}

/// The result of a probe or ping.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeResult {
    Passed,
    Failed(ProbeFailure),
    /// The probe itself could not be run.
    Unknown {
        why: String,
    },
}

/// The part of a probe that failed. `why` is concrete: a missing mount is named by its path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeFailure {
    Exec { why: String },
    Files { why: String },
    Control { why: String },
}

impl fmt::Display for ProbeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exec { why } => write!(f, "running a command failed: {why}"),
            Self::Files { why } => write!(f, "files cannot be accessed: {why}"),
            Self::Control { why } => write!(f, "the keeper does not answer: {why}"),
        }
    }
}

/// The result of one stop attempt.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopOutcome {
    /// An observation after the stop found nothing.
    Gone(Box<Receipt>),
    StillPresent {
        what: String,
    },
    Unknown {
        why: String,
    },
}
