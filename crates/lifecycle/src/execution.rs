//! One command in a sandbox, from the request to its outcome.

use serde::{Deserialize, Serialize};

use crate::{Attempt, Cause, ExecutionId, FileTransfers, PendingEffect, Timestamp};

/// One command in a sandbox, with its limits and its state.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Execution {
    pub id: ExecutionId,
    pub kind: ExecutionKind,
    pub limits: ExecutionLimits,
    #[serde(default, skip_serializing_if = "FileTransfers::is_none")]
    pub transfers: FileTransfers,
    pub requested_at: Timestamp,
    pub state: ExecutionState,
    /// Every attempt so far, including the current one. Empty unless the policy retries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionKind {
    /// A foreground command. It takes one of the `max_concurrent` slots.
    Run,
    /// A background command.
    Job,
}

/// Time limits of one execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
pub struct ExecutionLimits {
    /// `None`: limited only by the sandbox's own lifetime.
    pub timeout_ms: Option<u64>,
    /// Longest time without output and without an open egress request. In a request 0 means none.
    pub inactivity_ms: Option<u64>,
}

impl ExecutionLimits {
    /// Fills missing limits from `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            timeout_ms: self.timeout_ms.or(other.timeout_ms),
            // 0 turns it off.
            inactivity_ms: self.inactivity_ms.or(other.inactivity_ms).filter(|ms| *ms > 0),
        }
    }
}

/// The state of an execution.
///
/// ```text
///             slot free        files put          started          exited
///   Queued ──────┬─────► Preparing ─────► Starting ──────► Running ─────────────┐
///    │  ▲        │           │               ▲ │              │                 │
///    │  │        └───────────┼───────────────┘ ├──────────────┤                 │
///    │  │          no input files              │              │ cancel, timeout,│
///    │  │                    │                 │              │ inactivity, stop│
///    │  │                    ├─────────────────┤              ▼                 │
///    │  │    instance failed │                 │           Ending ─────────────►┤
///    │  │    and is replaced ▼                 │     process proven gone        │
///    │  └────────────── Interrupted ◄──────────┘                                │
///    │     instance proven gone                     artifacts, and the instance │
///    │                                                        lives: Collecting ┤
///    │                                          collected, deadline, or the end │
///    │                                          of the instance                 ▼
///    └─────────────────────────────────────────────────────────────────────── Ended
///       cancel, stop, start deadline (also in Preparing): no process exists, so it ends at once
/// ```
///
/// `Interrupted` occurs only where the policy retries ([`Recovery`](crate::Recovery)). A cancel during `Interrupted`
/// leads to `Ending`, which then waits for the proof that the failed instance is gone.
///
/// In `Collecting` the outcome is decided and final: whatever happens to the sandbox meanwhile, it is the one that is
/// written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionState {
    Queued {
        start_by: Timestamp,
    },
    /// The input files are being written; no process exists.
    Preparing {
        pending: PendingEffect,
    },
    /// The start was requested; the process may exist.
    Starting {
        pending: PendingEffect,
    },
    Running {
        started_at: Timestamp,
        /// When the execution counts as inactive, according to the last observation.
        quiet_by: Option<Timestamp>,
        /// The effect that waits for the exit. Its deadline is the execution's timeout.
        watch: PendingEffect,
    },
    /// The attempt failed with its instance. The next attempt waits until that instance is proven gone.
    Interrupted,
    /// The outcome is decided; the process is not yet proven gone.
    Ending {
        outcome: Outcome,
        /// `None`: the whole instance is being stopped, and its receipt is the proof.
        kill: Option<PendingEffect>,
    },
    /// The process is gone and the outcome is decided; the artifacts are being collected.
    Collecting {
        outcome: Outcome,
        pending: PendingEffect,
    },
    Ended {
        outcome: Outcome,
        at: Timestamp,
    },
}

/// How an execution ended. It is written once.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Outcome {
    pub kind: OutcomeKind,
    pub cause: Cause,
    pub exit_code: Option<i32>,
    /// Details in words, where the cause alone is not enough.
    pub detail: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeKind {
    Exited,
    Failed,
    Cancelled,
    TimedOut,
    Lost,
}

impl Outcome {
    #[must_use]
    pub fn exited(code: i32) -> Self {
        let cause = if code == 0 { Cause::Completed } else { Cause::ExitNonzero };
        Self { kind: OutcomeKind::Exited, cause, exit_code: Some(code), detail: None }
    }

    #[must_use]
    pub fn failed(cause: Cause, detail: impl Into<String>) -> Self {
        Self { kind: OutcomeKind::Failed, cause, exit_code: None, detail: Some(detail.into()) }
    }

    #[must_use]
    pub fn lost(detail: impl Into<String>) -> Self {
        Self { kind: OutcomeKind::Lost, cause: Cause::Lost, exit_code: None, detail: Some(detail.into()) }
    }

    /// The outcome of an execution that is ended for this cause, alone or together with its sandbox.
    #[must_use]
    pub fn ended_for(cause: Cause) -> Self {
        let kind = match cause {
            Cause::TimeLimit | Cause::Inactivity | Cause::Idle | Cause::MaxLife => OutcomeKind::TimedOut,
            Cause::Lost | Cause::HostRestarted => OutcomeKind::Lost,
            Cause::StoppedByUser
            | Cause::Cancelled
            | Cause::CallerGone
            | Cause::Shutdown
            | Cause::Orphan
            | Cause::EvictedEmergency => OutcomeKind::Cancelled,
            Cause::Completed
            | Cause::ExitNonzero
            | Cause::MemoryLimit
            | Cause::CpuLimit
            | Cause::NetworkLimit
            | Cause::DiskLimit
            | Cause::ProcessLimit
            | Cause::OutputLimit
            | Cause::OperationLimit
            | Cause::StartDeadline
            | Cause::StartFailed
            | Cause::ProbeFailed
            | Cause::ProviderError
            | Cause::KeeperKilled => OutcomeKind::Failed,
        };
        Self { kind, cause, exit_code: None, detail: None }
    }

    /// Removes the exit code of timed-out and cancelled executions. The engine and the instance both enforce time
    /// limits and cancels, and the outcome must not depend on which acts first; the code of a killed process is not
    /// its own.
    #[must_use]
    pub(crate) fn normalized(self) -> Self {
        match self.kind {
            OutcomeKind::TimedOut | OutcomeKind::Cancelled => Self { exit_code: None, ..self },
            OutcomeKind::Exited | OutcomeKind::Failed | OutcomeKind::Lost => self,
        }
    }
}

impl Execution {
    #[must_use]
    pub fn outcome(&self) -> Option<&Outcome> {
        match &self.state {
            ExecutionState::Ended { outcome, .. } => Some(outcome),
            ExecutionState::Queued { .. }
            | ExecutionState::Preparing { .. }
            | ExecutionState::Starting { .. }
            | ExecutionState::Running { .. }
            | ExecutionState::Interrupted
            | ExecutionState::Ending { .. }
            | ExecutionState::Collecting { .. } => None,
        }
    }

    /// The outcome once it is decided, also while the process or the artifacts are still being dealt with.
    #[must_use]
    pub fn decided_outcome(&self) -> Option<&Outcome> {
        match &self.state {
            ExecutionState::Ending { outcome, .. }
            | ExecutionState::Collecting { outcome, .. }
            | ExecutionState::Ended { outcome, .. } => Some(outcome),
            ExecutionState::Queued { .. }
            | ExecutionState::Preparing { .. }
            | ExecutionState::Starting { .. }
            | ExecutionState::Running { .. }
            | ExecutionState::Interrupted => None,
        }
    }

    /// Whether it takes a slot of its instance. It cannot outlive that instance.
    #[must_use]
    pub fn is_on_instance(&self) -> bool {
        match self.state {
            ExecutionState::Preparing { .. } | ExecutionState::Collecting { .. } => true,
            ExecutionState::Queued { .. }
            | ExecutionState::Starting { .. }
            | ExecutionState::Running { .. }
            | ExecutionState::Interrupted
            | ExecutionState::Ending { .. }
            | ExecutionState::Ended { .. } => self.may_have_process(),
        }
    }

    /// Whether a process of this execution may exist.
    #[must_use]
    pub fn may_have_process(&self) -> bool {
        match self.state {
            ExecutionState::Starting { .. }
            | ExecutionState::Running { .. }
            | ExecutionState::Interrupted
            | ExecutionState::Ending { .. } => true,
            ExecutionState::Queued { .. }
            | ExecutionState::Preparing { .. }
            | ExecutionState::Collecting { .. }
            | ExecutionState::Ended { .. } => false,
        }
    }
}
