//! The lease: which instance of a sandbox may exist physically. It is committed before the instance is created, and
//! freed only by evidence that nothing of it exists.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Extension, PendingEffect, ProbeFailure, Timestamp};

/// Numbers the instances of one sandbox. It only increases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
#[serde(transparent)]
pub struct Generation(pub u64);

impl Generation {
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// Which instance may exist, and what the engine is doing about it.
///
/// ```text
///                launch              probe passed
///   Free ──────────────► Starting ────────────────► Live
///    ▲  ▲                   │                        │
///    │  │                   │ failed start, stop     │ stop, time limit, failed checks,
///    │  │                   │                        │ not the leased instance
///    │  │ absence proven    ▼                        │
///    │  └─────────────── Stopping ◄──────────────────┘
///    │                    │    ▲
///    │  absence not proven│    │ backoff elapsed, or forced stop
///    │                    ▼    │
///    │                  StopWaiting
///    │                    │
///    │                    │ all attempts used
///    │                    ▼
///    └─────────────── Quarantined
///       an observation proves absence, or an operator attests it
///       (a forced stop leads back to Stopping for one more attempt)
/// ```
///
/// From `Free` a sandbox that is still wanted is launched again in the same transition, as the next generation. With
/// [`Recovery`](crate::Recovery) it first waits in `LaunchWaiting`: absence is proven, and the next launch is scheduled.
///
/// An instance may exist in every state except `Free` and `LaunchWaiting`. A failed or timed-out observation never leads
/// to `Free`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lease {
    /// No instance exists: `last` and all earlier generations are proven or attested to be gone.
    Free {
        last: Generation,
    },
    /// No instance exists; the next launch is scheduled.
    LaunchWaiting {
        last: Generation,
        next_at: Timestamp,
    },
    /// The instance is being created, or exists and has not yet passed its probe.
    Starting {
        generation: Generation,
        step: StartStep,
        pending: PendingEffect,
    },
    Live(Live),
    /// A stop attempt is under way.
    Stopping {
        generation: Generation,
        attempt: u32,
        forced: bool,
        pending: PendingEffect,
    },
    /// The last stop attempt did not prove absence; the next one is scheduled.
    StopWaiting {
        generation: Generation,
        attempts: u32,
        next_at: Timestamp,
        last: StopFailure,
    },
    /// All stop attempts failed. The instance is only observed, at long intervals.
    Quarantined {
        generation: Generation,
        attempts: u32,
        since: Timestamp,
        last: StopFailure,
        next_observation: Timestamp,
        pending: Option<PendingEffect>,
    },
}

/// How far a start has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartStep {
    /// The provider is creating the instance.
    Launch,
    /// The launching node died. Observe whether its instance exists and is complete.
    Identify,
    /// The instance exists and is being probed.
    Probe,
}

/// An instance that passed its probe in this generation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Live {
    pub generation: Generation,
    /// When the first execution must have started. `None`: it has, or there is no such deadline.
    pub accept_by: Option<Timestamp>,
    /// When the sandbox counts as idle, unless an observation shows activity. `None`: it has executions.
    pub idle_by: Option<Timestamp>,
    pub health: Health,
    pub check: Option<Check>,
    /// The instance was claimed from the pool and does not yet know its new deadline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extension: Option<Extension>,
}

/// The health of a live instance, as its checks found it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Health {
    pub verdict: Verdict,
    /// When the last check passed: a probe, or a ping after one.
    pub verified_at: Timestamp,
    pub next_check: Timestamp,
    /// Probes that failed in a row, up to now.
    pub failed_probes: u32,
    /// Since when checks have been inconclusive.
    pub inconclusive_since: Option<Timestamp>,
    /// No observation before this time, because the last one was inconclusive.
    pub observe_not_before: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Healthy,
    Unhealthy { since: Timestamp, failure: ProbeFailure },
}

/// A check of a live instance. At most one is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Check {
    pub kind: CheckKind,
    pub pending: PendingEffect,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckKind {
    Ping,
    Probe,
    Observe,
}

/// Why a stop attempt did not free the lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopFailure {
    StillPresent {
        what: String,
    },
    ObservationFailed {
        why: String,
    },
    DeadlinePassed,
    /// The stored row could not be read, so the instance's state is not known.
    UnreadableRow {
        why: String,
    },
}

impl fmt::Display for StartStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Launch => "launch",
            Self::Identify => "observation after the launch",
            Self::Probe => "first probe",
        })
    }
}

impl fmt::Display for CheckKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ping => "ping",
            Self::Probe => "probe",
            Self::Observe => "observation",
        })
    }
}

impl fmt::Display for StopFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StillPresent { what } => write!(f, "still present: {what}"),
            Self::ObservationFailed { why } => write!(f, "observation failed: {why}"),
            Self::DeadlinePassed => f.write_str("no answer by the deadline"),
            Self::UnreadableRow { why } => write!(f, "the stored row cannot be read: {why}"),
        }
    }
}

impl Lease {
    /// The generation that may exist, or the last one that did.
    #[must_use]
    pub fn generation(&self) -> Generation {
        match self {
            Self::Free { last } | Self::LaunchWaiting { last, .. } => *last,
            Self::Live(live) => live.generation,
            Self::Starting { generation, .. }
            | Self::Stopping { generation, .. }
            | Self::StopWaiting { generation, .. }
            | Self::Quarantined { generation, .. } => *generation,
        }
    }

    #[must_use]
    pub fn is_free(&self) -> bool {
        matches!(self, Self::Free { .. })
    }

    /// Whether an instance may exist.
    #[must_use]
    pub fn may_have_instance(&self) -> bool {
        !matches!(self, Self::Free { .. } | Self::LaunchWaiting { .. })
    }
}
