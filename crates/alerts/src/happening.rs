//! What happened to an alert, for its history; and for those who are called, unless it says why they are not.

use pinfold_lifecycle::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Alert, Level, Subject};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Happening {
    pub at: Timestamp,
    pub alert: Alert,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
    pub what: What,
    /// The figure, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// When it began to fire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    pub level: Level,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untold: Option<Untold>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    Fired,
    /// It still fires, and nobody has acknowledged it.
    Repeated,
    /// Nobody has acknowledged it, so others are called.
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

/// Why nobody is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Untold {
    /// Somebody was, not long ago.
    Cooldown,
    Silence,
    /// It is nothing to be called for.
    Quiet,
}

impl Happening {
    /// Whether somebody is to be called.
    #[must_use]
    pub fn is_told(&self) -> bool {
        self.untold.is_none() && self.what.is_news()
    }
}

impl What {
    /// What somebody did is known to whoever did it.
    #[must_use]
    pub fn is_news(&self) -> bool {
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
