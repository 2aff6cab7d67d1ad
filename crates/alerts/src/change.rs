//! Changes of an alert, for its history and for notifications.

use pinfold_lifecycle::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Alert, AlertSubject, EscalationLevel};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AlertChange {
    pub at: Timestamp,
    pub alert: Alert,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<AlertSubject>,
    pub kind: ChangeKind,
    /// The value, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// When it began to fire.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    pub level: EscalationLevel,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suppressed: Option<Suppression>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    Fired,
    /// It still fires and is not acknowledged.
    Repeated,
    /// It is not acknowledged, so the next level is notified.
    Escalated,
    Resolved,
    Acknowledged {
        by: String,
    },
    Silenced {
        by: String,
        until: Timestamp,
        reason: String,
    },
    Unsilenced {
        by: String,
    },
}

/// Why no notification is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Suppression {
    /// One was sent recently.
    Cooldown,
    Silence,
    /// This change is never notified.
    Quiet,
}

impl AlertChange {
    /// Whether a notification is sent.
    #[must_use]
    pub fn notifies(&self) -> bool {
        self.suppressed.is_none() && self.kind.is_notifiable()
    }
}

impl ChangeKind {
    /// Whether this kind of change is notified at all. A user's own action is not.
    #[must_use]
    pub fn is_notifiable(&self) -> bool {
        match self {
            Self::Fired | Self::Repeated | Self::Escalated | Self::Resolved => true,
            Self::Acknowledged { .. } | Self::Silenced { .. } | Self::Unsilenced { .. } => false,
        }
    }

    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Fired => "fired",
            Self::Repeated => "repeated",
            Self::Escalated => "escalated",
            Self::Resolved => "resolved",
            Self::Acknowledged { .. } => "acknowledged",
            Self::Silenced { .. } => "silenced",
            Self::Unsilenced { .. } => "unsilenced",
        }
    }
}
