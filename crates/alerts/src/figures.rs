//! What is known at one moment. None is what could not be found out: it is neither good nor bad.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Figures {
    /// Sandboxes that are not being ended.
    pub active: Option<u64>,
    /// Past a deadline of their own, or not proven gone in the time that has.
    pub stuck: Option<u64>,
    /// Bodies that no record spoke of.
    pub orphaned: Option<u64>,
    /// Executions that ended lately, and the share of them that took too long or fell silent.
    pub executions: Option<u64>,
    pub timeout_rate: Option<f64>,
    pub inactivity_rate: Option<f64>,
    /// The same executions and the starts that came to none, and the share of them that came to grief.
    pub outcomes: Option<u64>,
    pub failure_rate: Option<f64>,
    /// From the wish for an execution to its process, and from there to its end.
    pub exec_start: Pace,
    pub execution: Pace,
    /// Attempts to stop a body that were answered lately, and the share of them that proved nothing.
    pub stops: Option<u64>,
    pub stop_failure_rate: Option<f64>,
    /// Attempts to start a body that were answered lately, and the share of them that came to nothing.
    pub starts: Option<u64>,
    pub start_failure_rate: Option<f64>,
    /// Sandboxes that are said to live and are not proven to.
    pub disagreements: Option<u64>,
    /// Sandboxes whose records cannot be read, or whose bodies were lost lately.
    pub corrupted: Option<u64>,
    /// Of the host's own: the scarcest of them, as a share.
    pub resources_used: Option<f64>,
    /// Of what all sandboxes together may have: the scarcest of it, as a share.
    pub quota_used: Option<f64>,
    /// Runs of cleanup, the last ones, that failed without one between them that did not.
    pub cleanup_failures_in_a_row: Option<u64>,
    /// How late the latest cleanup is, in its own periods.
    pub cleanup_periods_late: Option<f64>,
    /// Sandboxes that one cleanup after the other had to end.
    pub cleanup_found_twice: Option<u64>,
    /// What happened to single sandboxes, or is the case with them.
    pub events: Option<Vec<Subject>>,
}

/// What 95 of 100 take at the most, in seconds: lately, and of all that were ever counted.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Pace {
    pub lately: Option<f64>,
    pub usually: Option<f64>,
}

/// What an alert about one sandbox is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Subject {
    pub event: Event,
    pub sandbox: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    Timeout,
    Stuck,
}

impl Event {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Stuck => "stuck",
        }
    }
}
