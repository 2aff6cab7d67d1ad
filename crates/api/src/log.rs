//! The log of a sandbox: output and control plane messages.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One page of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogPage {
    pub sandbox_id: String,
    /// The time of the last entry of the whole log.
    #[schema(format = DateTime)]
    pub last_activity: Option<String>,
    pub entries: Vec<LogEntry>,
    /// The value of `after` for the next page.
    pub next: String,
    /// True: more entries may be available already.
    pub more: bool,
    /// True: the log is complete.
    pub over: bool,
    /// Likely causes of messages in these entries.
    pub hints: Vec<LogHint>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogEntry {
    /// The cursor after this entry: pass it as `after`.
    pub seq: String,
    #[schema(format = DateTime)]
    pub at: String,
    pub source: LogSource,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<String>,
    pub generation: u64,
    /// The entry as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The entry as base64, where it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogSource {
    Stdout,
    Stderr,
    /// Control plane messages, and gaps in the output.
    Control,
}

impl LogSource {
    /// The event name in a stream.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Control => "control",
        }
    }
}

/// The usual cause of a message pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogHint {
    /// The matching text.
    pub seen: String,
    pub likely_cause: String,
}
