//! The detailed examination of one sandbox.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Sandbox;

/// The record, the probe results, and the diagnosed problems.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Examination {
    #[serde(flatten)]
    pub sandbox: Sandbox,
    /// Upcoming deadlines, in no particular order.
    pub due: Vec<UpcomingDeadline>,
    /// The probes that were run. Empty for an ended sandbox.
    pub probes: Vec<Probe>,
    /// Diagnosed problems, most likely cause first. Empty: no problem was found.
    pub troubles: Vec<Trouble>,
    pub verdict: String,
}

/// One diagnosed problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Trouble {
    pub kind: TroubleKind,
    /// What was observed, with numbers and names.
    pub saw: String,
    pub means: String,
    /// The command that resolves it.
    pub resolve: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TroubleKind {
    /// Its record cannot be read.
    Unreadable,
    /// Its instance could not be proven gone.
    Quarantined,
    /// The keeper (process 1) is gone.
    KeeperGone,
    /// The keeper (process 1) exists but does not answer.
    KeeperSilent,
    /// Processes in it are stopped by a signal.
    Stopped,
    /// Processes in it are in uninterruptible sleep.
    Uninterruptible,
    DiskFull,
    ProcessesFull,
    /// A required directory or mount is missing, or files cannot be written.
    PlaceMissing,
    /// No command can be run in it.
    CommandFails,
    /// Memory grows towards its limit, or is near it.
    Leaking,
    /// CPU usage near 100 %.
    Busy,
    /// A process waits for input that does not come.
    WaitsForInput,
    /// CPU usage near 0 %, and no output.
    Hung,
    /// Its log shows attempts to use a network that it does not have.
    NoNetwork,
    /// Its log shows an external service that does not answer.
    ServiceHangs,
    /// Its log shows infinite recursion.
    EndlessRecursion,
    /// Its log shows memory exhaustion.
    OutOfMemory,
    /// More than one of its executions timed out.
    RepeatedTimeouts,
    /// Part of its state could not be observed.
    Unseen,
}

/// An automatic action, and when it is due.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UpcomingDeadline {
    pub what: String,
    #[schema(format = DateTime)]
    pub at: String,
    pub left_ms: u64,
}

/// One probe, with its raw answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Probe {
    pub probe: String,
    pub passed: bool,
    pub answer: String,
    pub took_ms: f64,
}
