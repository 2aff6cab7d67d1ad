//! How far each alert has come. It is stored as it is, so that any server goes on where another has ended.

use serde::{Deserialize, Serialize};

use pinfold_lifecycle::Timestamp;

use crate::{Level, Subject};

/// Of one alert. It has one instance, or, if it is about single sandboxes, one for each.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AlertState {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silence: Option<Silence>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<Instance>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Instance {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
    pub phase: Phase,
    /// When somebody was last called about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_at: Option<Timestamp>,
}

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
/// A figure that is not known moves nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Within its cooldown, else there is no instance.
    Inactive,
    Pending {
        since: Timestamp,
        /// When it was last seen to hold.
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
    /// As it was when it began to fire.
    pub value: f64,
    /// Whether anybody was called about this firing.
    pub told: bool,
    /// How far it has been escalated.
    pub level: Level,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<Acknowledgement>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acknowledgement {
    pub by: String,
    pub at: Timestamp,
}

/// Nobody is called before its end.
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

    pub fn firing(&self) -> impl Iterator<Item = (&Instance, &Firing)> {
        self.instances.iter().filter_map(|instance| match &instance.phase {
            Phase::Firing(firing) => Some((instance, firing)),
            Phase::Inactive | Phase::Pending { .. } | Phase::Resolved { .. } => None,
        })
    }
}

impl Instance {
    pub(crate) fn new(subject: Option<Subject>) -> Self {
        Self { subject, phase: Phase::Inactive, told_at: None }
    }
}
