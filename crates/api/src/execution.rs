//! Commands in sandboxes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Attempt, Cause, Output, TerminalSize, Used};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecRequest {
    /// The program and its arguments. No shell reads it.
    #[schema(min_items = 1)]
    pub command: Vec<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Where it starts inside.
    #[serde(default)]
    pub workdir: Option<String>,
    /// What it reads. None: it has no input.
    #[serde(default)]
    pub stdin: Option<String>,
    /// It can be fed later; `stdin` comes first.
    #[serde(default)]
    pub interactive: bool,
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    #[serde(default)]
    pub inactivity_ms: Option<u64>,
    /// It is answered when it is written down, and runs on.
    #[serde(default)]
    pub background: bool,
    #[serde(default)]
    pub tty: bool,
    /// How large its terminal is at first. None: what is usual.
    #[serde(default)]
    pub tty_size: Option<TerminalSize>,
    /// False: it is refused where it would have to wait for a place.
    #[serde(default = "yes")]
    pub queue: bool,
}

fn yes() -> bool {
    true
}

impl ExecRequest {
    /// A command and nothing said about it.
    #[must_use]
    pub fn of(command: Vec<String>) -> Self {
        Self {
            command,
            env: BTreeMap::new(),
            workdir: None,
            stdin: None,
            interactive: false,
            timeout_ms: None,
            inactivity_ms: None,
            background: false,
            tty: false,
            tty_size: None,
            queue: true,
        }
    }
}

/// A command that has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ExecResult {
    pub execution_id: String,
    pub sandbox_id: String,
    pub state: ExecutionState,
    pub exit_code: Option<i32>,
    pub cause: Cause,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    #[serde(flatten)]
    pub output: Output,
    #[schema(format = DateTime)]
    pub started_at: Option<String>,
    #[schema(format = DateTime)]
    pub ended_at: Option<String>,
    /// Of the whole sandbox so far.
    pub usage: Option<Used>,
}

/// A command, whether it has ended or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Execution {
    pub execution_id: String,
    pub sandbox_id: String,
    pub state: ExecutionState,
    pub background: bool,
    pub command: Vec<String>,
    pub workdir: Option<String>,
    pub tty: bool,
    pub timeout_ms: Option<u64>,
    pub inactivity_ms: Option<u64>,
    #[schema(format = DateTime)]
    pub asked_at: String,
    #[schema(format = DateTime)]
    pub started_at: Option<String>,
    #[schema(format = DateTime)]
    pub ended_at: Option<String>,
    pub exit_code: Option<i32>,
    pub cause: Option<Cause>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Where it may be tried again: every try so far.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
    /// Where its output is read.
    pub output_url: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionState {
    Queued,
    Running,
    Exited,
    Failed,
    Cancelled,
    TimedOut,
    Lost,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignalRequest {
    /// `TERM`, `SIGTERM` or `15`.
    pub signal: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StdinRequest {
    /// What to feed, as text or as base64.
    pub text: Option<String>,
    pub base64: Option<String>,
    /// How many bytes were fed before these. None: all that was accepted so far. With it, asking again is safe.
    pub at: Option<u64>,
    /// Nothing comes after these.
    pub close: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StdinAnswer {
    /// Of all that was ever fed: the place from which to go on.
    pub accepted: u64,
    /// Nothing more is accepted.
    pub closed: bool,
}
