//! What a command writes: whole, or as numbered events.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Cause, ExecutionState};

/// Bytes as text, or as base64 where they are none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Output {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_base64: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_base64: Option<String>,
    /// Output that had to make room for later output.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_bytes: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// One event of an execution. `seq` only grows; reading on after one gives each later one once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum OutputEvent {
    Stdout {
        seq: u64,
        #[schema(format = DateTime)]
        at: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base64: Option<String>,
    },
    Stderr {
        seq: u64,
        #[schema(format = DateTime)]
        at: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base64: Option<String>,
    },
    /// Output up to this number had to make room before it was read.
    Gap { seq: u64, from_seq: u64, bytes: u64 },
    /// The last one.
    Exit {
        seq: u64,
        execution_id: String,
        state: ExecutionState,
        exit_code: Option<i32>,
        cause: Cause,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
    /// The stream ends here although the execution may go on: read on after the last number.
    Error { seq: u64, message: String },
}

impl OutputEvent {
    #[must_use]
    pub fn seq(&self) -> u64 {
        match self {
            Self::Stdout { seq, .. }
            | Self::Stderr { seq, .. }
            | Self::Gap { seq, .. }
            | Self::Exit { seq, .. }
            | Self::Error { seq, .. } => *seq,
        }
    }

    /// As the stream calls it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Stdout { .. } => "stdout",
            Self::Stderr { .. } => "stderr",
            Self::Gap { .. } => "gap",
            Self::Exit { .. } => "exit",
            Self::Error { .. } => "error",
        }
    }
}

/// Some events of an execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OutputPage {
    pub execution_id: String,
    pub events: Vec<OutputEvent>,
    /// What to give as `after` to read on.
    pub next: u64,
    /// Nothing comes after these.
    pub ended: bool,
}

/// One event of a stream: its number, its name, and an [`OutputEvent`] as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServerSentEvent {
    pub id: String,
    pub event: String,
    pub data: String,
}
