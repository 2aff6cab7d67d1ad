//! The lease: which physical things of which generation may exist.

use serde::{Deserialize, Serialize};

use crate::{Extension, PendingEffect, ProbeFailure, Timestamp};

/// Numbers the bodies of one sandbox. It only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
#[serde(transparent)]
pub struct Generation(pub u64);

impl Generation {
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// Which body may exist, and what is being done about it.
///
/// ```text
///             launch            probes passed
///   Free ───────────► Starting ──────────────► Live
///    ▲                   │                      │
///    │ proven absent     │ stop, failed start   │ stop, limit, lost identity
///    │                   ▼                      │
///    ├────────────── Stopping ◄─────────────────┘
///    │                │    ▲
///    │      no proof  ▼    │ backoff over
///    │            StopWaiting
///    │                │ attempts used up
///    │                ▼
///    └────────── Quarantined      (a look proves absence, or an operator attests to it;
///                                  who insists on a stop gets one attempt more)
/// ```
///
/// Between two tries it is `LaunchWaiting`: proven absent, and the next launch has its time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lease {
    /// No body exists: `last` and everything before it is proven gone, or attested to be.
    Free {
        last: Generation,
    },
    /// No body exists, as if it were free; the next one is made at its time.
    LaunchWaiting {
        last: Generation,
        next_at: Timestamp,
    },
    /// A body is being made, or was made and has not proven itself.
    Starting {
        generation: Generation,
        step: StartStep,
        duty: PendingEffect,
    },
    Live(Live),
    /// One attempt to end the body is under way.
    Stopping {
        generation: Generation,
        attempt: u32,
        forced: bool,
        duty: PendingEffect,
    },
    /// The last attempt did not prove absence; the next one has its time.
    StopWaiting {
        generation: Generation,
        attempts: u32,
        next_at: Timestamp,
        last: StopFailure,
    },
    /// No more attempts: only looked at, now and then.
    Quarantined {
        generation: Generation,
        attempts: u32,
        since: Timestamp,
        last: StopFailure,
        next_look: Timestamp,
        look: Option<PendingEffect>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartStep {
    Launch,
    /// The node that launched is dead: is its body there, and is it whole?
    Identify,
    Probe,
}

/// A body that passed its probes in this generation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Live {
    pub generation: Generation,
    /// When the first work must have been accepted. None: it was, or nobody waits for it.
    pub accept_by: Option<Timestamp>,
    /// When the sandbox counts as idle, unless a look shows that it was busy. None: it has executions.
    pub idle_by: Option<Timestamp>,
    pub health: Health,
    pub check: Option<Check>,
    /// It came from the pool and does not know yet how long it may live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extension: Option<Extension>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Health {
    pub verdict: Verdict,
    /// The last time a check passed: a probe, or a ping after one.
    pub verified_at: Timestamp,
    pub next_check: Timestamp,
    /// Since when looks do not answer.
    pub doubt_since: Option<Timestamp>,
    /// No look before this: the last one did not answer.
    pub hold_until: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Healthy,
    Unhealthy { since: Timestamp, failure: ProbeFailure },
}

/// One question to a live body. There is at most one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Check {
    pub kind: CheckKind,
    pub duty: PendingEffect,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckKind {
    Ping,
    Probe,
    Look,
}

/// Why an attempt to stop did not free the lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopFailure {
    StillPresent {
        what: String,
    },
    LookFailed {
        why: String,
    },
    DeadlinePassed,
    /// The stored row could not be read, so nothing is known of the body.
    UnreadableRow {
        why: String,
    },
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

    /// Whether a body may exist.
    #[must_use]
    pub fn may_have_a_body(&self) -> bool {
        !matches!(self, Self::Free { .. } | Self::LaunchWaiting { .. })
    }
}
