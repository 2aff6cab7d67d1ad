//! Output of an execution: as a whole, or as numbered events.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Cause, ExecutionState};

/// The whole output: text, or base64 where it is not UTF-8.
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
    /// Bytes of older output that were dropped at the output limit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_bytes: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// One output event. `seq` only grows; reading after a `seq` returns each later event exactly once.
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
    /// Output up to this `seq` was dropped before it was read.
    Gap { seq: u64, from_seq: u64, bytes: u64 },
    /// The execution ended. No event follows.
    Exit {
        seq: u64,
        execution_id: String,
        state: ExecutionState,
        exit_code: Option<i32>,
        cause: Cause,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
    /// The stream broke off; the execution may still run. Continue after the last `seq`.
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

    /// The event name in a stream.
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

/// One page of output events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OutputPage {
    pub execution_id: String,
    pub events: Vec<OutputEvent>,
    /// The value of `after` for the next page.
    pub next: u64,
    /// True: no more events follow.
    pub ended: bool,
}

/// One server-sent event: `seq`, event name, and an [`OutputEvent`] as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServerSentEvent {
    pub id: String,
    pub event: String,
    pub data: String,
}
