//! One command in a sandbox, from the wish to its outcome.

use serde::{Deserialize, Serialize};

use crate::{Attempt, Cause, ExecutionId, PendingEffect, Timestamp};

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Execution {
    pub id: ExecutionId,
    pub kind: ExecutionKind,
    pub limits: ExecutionLimits,
    pub asked_at: Timestamp,
    pub state: ExecutionState,
    /// Where it may be tried again: every try so far, the present or last one included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionKind {
    /// Somebody waits for it; it takes one of the places side by side.
    Run,
    /// It stays in the background.
    Job,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
pub struct ExecutionLimits {
    /// None: until the sandbox's own end.
    pub timeout_ms: Option<u64>,
    /// No output and no open egress request for so long.
    pub inactivity_ms: Option<u64>,
}

impl ExecutionLimits {
    /// What is not said is taken from the other.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            timeout_ms: self.timeout_ms.or(other.timeout_ms),
            inactivity_ms: self.inactivity_ms.or(other.inactivity_ms),
        }
    }
}

/// How far it has come.
///
/// ```text
///   Queued ──► Starting ──► Running ──► Ended
///     │            │           │          ▲
///     │            └─────┬─────┘          │
///     │                  ▼   proven gone  │
///     │               Ending ─────────────┤
///     └───────────────────────────────────┘
/// ```
///
/// Where its body fails and is to be replaced, it is `Interrupted` until that body is proven gone, and then `Queued`
/// again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionState {
    Queued {
        start_by: Timestamp,
    },
    /// Its process may exist.
    Starting {
        duty: PendingEffect,
    },
    Running {
        started_at: Timestamp,
        /// When silence becomes inactivity, as far as the last look knows.
        quiet_by: Option<Timestamp>,
        /// The wait for its end; its deadline is the execution's.
        watch: PendingEffect,
    },
    /// Its try is over and the next one waits for the proof that this body is gone.
    Interrupted,
    /// The outcome is decided, the proof that the process is gone is not there yet.
    Ending {
        outcome: Outcome,
        /// None: the whole body is being stopped, and its proof counts.
        kill: Option<PendingEffect>,
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
    /// What was seen, in words, where the cause alone does not tell.
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

    /// How an execution ends whose sandbox ends for this cause, or that is ended for it by itself.
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
            | Cause::ProviderError => OutcomeKind::Failed,
        };
        Self { kind, cause, exit_code: None, detail: None }
    }

    /// The same whoever tells it. A limit of time and a cancel are enforced by the engine and by the body, and whichever
    /// comes first must not show: the code of a process that was killed for it is not its own.
    #[must_use]
    pub(crate) fn settled(self) -> Self {
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
            | ExecutionState::Starting { .. }
            | ExecutionState::Running { .. }
            | ExecutionState::Interrupted
            | ExecutionState::Ending { .. } => None,
        }
    }

    /// Whether a process of it may exist.
    #[must_use]
    pub fn may_have_a_process(&self) -> bool {
        match self.state {
            ExecutionState::Starting { .. }
            | ExecutionState::Running { .. }
            | ExecutionState::Interrupted
            | ExecutionState::Ending { .. } => true,
            ExecutionState::Queued { .. } | ExecutionState::Ended { .. } => false,
        }
    }
}
