//! The state of each alert. It is stored, so that any server can continue from it.

use serde::{Deserialize, Serialize};

use pinfold_lifecycle::Timestamp;

use crate::{AlertSubject, EscalationLevel};

/// The state of one alert. It has one instance, or one per sandbox if it concerns single sandboxes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AlertState {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silence: Option<Silence>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<AlertInstance>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AlertInstance {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<AlertSubject>,
    pub phase: Phase,
    /// When a notification about it was last sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notified_at: Option<Timestamp>,
}

/// The phase of one alert instance.
///
/// ```text
///               holds             for long enough
///   Inactive ──────────► Pending ────────────────► Firing
///      ▲  ▲                 │                        │ ▲
///      │  └─────────────────┘                        │ │ holds for long enough
///      │       does not hold                         ▼ │ (by way of Pending)
///      └───────────────────────────────────────── Resolved
///                  the cooldown is over
/// ```
///
/// An unknown value changes nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Kept only during its cooldown.
    Inactive,
    Pending {
        since: Timestamp,
        /// When the condition was last evaluated as true.
        seen_at: Timestamp,
    },
    Firing(Firing),
    Resolved {
        fired_at: Timestamp,
        at: Timestamp,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Firing {
    pub since: Timestamp,
    /// The value when it began to fire.
    pub value: f64,
    /// Whether a notification about this firing was sent.
    pub notified: bool,
    /// The escalation level reached so far.
    pub level: EscalationLevel,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<Acknowledgement>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acknowledgement {
    pub by: String,
    pub at: Timestamp,
}

/// Suppresses notifications until its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Silence {
    pub until: Timestamp,
    pub reason: String,
    pub by: String,
    pub at: Timestamp,
}

impl AlertState {
    #[must_use]
    pub fn is_silent(&self, now: Timestamp) -> bool {
        self.silence.as_ref().is_some_and(|silence| now < silence.until)
    }

    pub fn firing(&self) -> impl Iterator<Item = (&AlertInstance, &Firing)> {
        self.instances.iter().filter_map(|instance| match &instance.phase {
            Phase::Firing(firing) => Some((instance, firing)),
            Phase::Inactive | Phase::Pending { .. } | Phase::Resolved { .. } => None,
        })
    }
}

impl AlertInstance {
    pub(crate) fn new(subject: Option<AlertSubject>) -> Self {
        Self { subject, phase: Phase::Inactive, notified_at: None }
    }
}
