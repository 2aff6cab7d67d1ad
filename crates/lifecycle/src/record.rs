//! History records: every transition records what happened. They are the audit log and the timeline.

use serde::{Deserialize, Serialize};

use crate::{
    Attestation, Cause, ExecutionId, Fence, Generation, NodeId, Outcome, ProbeFailure, StopFailure, Timestamp,
};

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Record {
    pub at: Timestamp,
    /// The node that decided the transition.
    pub by: NodeId,
    pub fact: Fact,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "fact", rename_all = "snake_case")]
pub enum Fact {
    Created,
    /// A pooled instance is being prepared. `Created` follows when it is claimed.
    Pooled,
    /// The instance has accepted its new deadline.
    DeadlineUpdated {
        until: Timestamp,
    },
    LaunchBegan {
        generation: Generation,
    },
    Launched {
        generation: Generation,
    },
    StartFailed {
        generation: Generation,
        cause: Cause,
        why: String,
    },
    /// An instance failed, and its executions will be retried on another one.
    AttemptFailed {
        generation: Generation,
        cause: Cause,
        why: String,
    },
    /// The next launch, after this many attempts, is scheduled.
    RetryScheduled {
        attempts: u32,
        at: Timestamp,
    },
    BecameReady {
        generation: Generation,
    },
    WorkAccepted {
        healed: bool,
    },
    RestartRequested {
        cause: Cause,
    },
    EndDecided {
        cause: Cause,
    },
    StopBegan {
        generation: Generation,
        attempt: u32,
        forced: bool,
    },
    StopFailed {
        generation: Generation,
        attempt: u32,
        failure: StopFailure,
    },
    Quarantined {
        generation: Generation,
        failure: StopFailure,
    },
    ObservedInQuarantine {
        generation: Generation,
        found: String,
    },
    Attested {
        attestation: Attestation,
    },
    LeaseFreed {
        generation: Generation,
    },
    Ended {
        cause: Cause,
    },
    StrayFound {
        generation: Generation,
    },
    BecameUnhealthy {
        failure: ProbeFailure,
    },
    BecameHealthy,
    InDoubt {
        why: String,
    },
    UnexpectedInstances {
        generations: Vec<Generation>,
    },
    Reconciled {
        previous_status: String,
    },
    Adopted {
        from: NodeId,
    },
    KeptAlive {
        until: Timestamp,
    },
    ForgetRequested,
    ExecutionQueued {
        execution: ExecutionId,
    },
    FilesPut {
        execution: ExecutionId,
    },
    ExecutionStarted {
        execution: ExecutionId,
    },
    ExecutionEnding {
        execution: ExecutionId,
        cause: Cause,
    },
    /// The process is gone and the outcome is decided; artifacts are being collected.
    ExecutionCollecting {
        execution: ExecutionId,
    },
    ExecutionEnded {
        execution: ExecutionId,
        outcome: Outcome,
    },
    /// A result arrived whose effect was no longer pending.
    LateAnswer {
        fence: Fence,
        answer: String,
    },
}
