//! The values that alerts are evaluated on, at one moment. `None` means not known, which is neither good nor bad.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Default)]
pub struct AlertInputs {
    /// Sandboxes that are not being ended.
    pub active: Option<u64>,
    /// Sandboxes past a deadline of their own, or not proven gone in time.
    pub stuck: Option<u64>,
    /// Instances found without a row.
    pub orphaned: Option<u64>,
    /// Executions that ended recently, and the shares that timed out or were inactive.
    pub executions: Option<u64>,
    pub timeout_rate: Option<f64>,
    pub inactivity_rate: Option<f64>,
    /// The same executions plus failed starts, and the share that failed.
    pub outcomes: Option<u64>,
    pub failure_rate: Option<f64>,
    /// From the execute request to the start of the process, and from there to its end.
    pub exec_start: DurationP95,
    pub execution: DurationP95,
    /// Stop attempts with a recent result, and the share that did not prove absence.
    pub stops: Option<u64>,
    pub stop_failure_rate: Option<f64>,
    /// Start attempts with a recent result, and the share that failed.
    pub starts: Option<u64>,
    pub start_failure_rate: Option<f64>,
    /// Sandboxes recorded as live without a recent passed probe.
    pub disagreements: Option<u64>,
    /// Sandboxes whose rows cannot be read, or whose instances were lost recently.
    pub corrupted: Option<u64>,
    /// The used share of the scarcest host resource.
    pub resources_used: Option<f64>,
    /// The used share of the scarcest admission limit.
    pub quota_used: Option<f64>,
    /// Consecutive failed cleanup runs, counted from the last one.
    pub cleanup_failures_in_a_row: Option<u64>,
    /// How late the latest cleanup is, in its own periods.
    pub cleanup_periods_late: Option<f64>,
    /// Sandboxes that two successive cleanups had to end.
    pub cleanup_found_twice: Option<u64>,
    /// Requests with a wrong token in the worse of this minute and the one before.
    pub wrong_tokens: Option<u64>,
    /// Events and conditions of single sandboxes.
    pub events: Option<Vec<AlertSubject>>,
}

/// The 95th percentile in seconds: recently, and over all recorded values.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DurationP95 {
    pub recent: Option<f64>,
    pub overall: Option<f64>,
}

/// The sandbox and the event that an alert is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AlertSubject {
    pub event: SandboxEventKind,
    pub sandbox: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxEventKind {
    Timeout,
    Stuck,
}

impl SandboxEventKind {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Stuck => "stuck",
        }
    }
}
