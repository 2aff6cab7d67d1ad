//! The history: every transition says what happened. It is the audit trail and the timeline in one.

use serde::{Deserialize, Serialize};

use crate::{
    Attestation, Cause, ExecutionId, Fence, Generation, NodeId, Outcome, ProbeFailure, StopFailure, Timestamp,
};

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Record {
    pub at: Timestamp,
    /// The node that decided.
    pub by: NodeId,
    pub fact: Fact,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "fact", rename_all = "snake_case")]
pub enum Fact {
    Created,
    /// A body is prepared that nobody has asked for yet. It is `Created` when it is given out.
    Pooled,
    /// The body knows when it ends.
    EndMoved {
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
    /// A body has failed its sandbox, and another one is to be tried.
    TryFailed {
        generation: Generation,
        cause: Cause,
        why: String,
    },
    /// After so many tries the next one has its time.
    NextTryWaits {
        tries: u32,
        at: Timestamp,
    },
    BecameReady {
        generation: Generation,
    },
    WorkAccepted {
        healed: bool,
    },
    RestartAsked {
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
    LookedInQuarantine {
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
    UnexpectedBodies {
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
    ForgetAsked,
    ExecutionQueued {
        execution: ExecutionId,
    },
    ExecutionStarted {
        execution: ExecutionId,
    },
    ExecutionEnding {
        execution: ExecutionId,
        cause: Cause,
    },
    ExecutionEnded {
        execution: ExecutionId,
        outcome: Outcome,
    },
    /// An answer came after its question was settled.
    LateAnswer {
        ticket: Fence,
        answer: String,
    },
}
