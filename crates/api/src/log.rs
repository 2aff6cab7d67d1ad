//! The log of a sandbox.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Some entries of a log, and where to read on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogPage {
    pub sandbox_id: String,
    /// When the last entry of the whole log was made.
    #[schema(format = DateTime)]
    pub last_activity: Option<String>,
    pub entries: Vec<LogEntry>,
    /// What to give as `after` to read on.
    pub next: String,
    /// There may be more at once.
    pub more: bool,
    /// Nothing more will come.
    pub over: bool,
    /// What is known to be behind what these entries say.
    pub hints: Vec<LogHint>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogEntry {
    /// Where a reader that has seen this entry goes on: give it as `after`.
    pub seq: String,
    #[schema(format = DateTime)]
    pub at: String,
    pub source: LogSource,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<String>,
    pub generation: u64,
    /// What was written, as it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Where it is no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogSource {
    Stdout,
    Stderr,
    /// What the control plane did, and output that is missing.
    Control,
}

impl LogSource {
    /// As the stream calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Control => "control",
        }
    }
}

/// What a pattern in a log usually means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogHint {
    /// What was seen.
    pub seen: String,
    pub likely_cause: String,
}
