//! Executions: commands in sandboxes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Attempt, Cause, Output, ResourceUsage, TerminalSize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecRequest {
    /// The program and its arguments. No shell is involved.
    #[schema(min_items = 1)]
    pub command: Vec<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The working directory inside the sandbox.
    #[serde(default)]
    pub workdir: Option<String>,
    /// Standard input. Null: none.
    #[serde(default)]
    pub stdin: Option<String>,
    /// More input can be sent later; `stdin` comes first.
    #[serde(default)]
    pub interactive: bool,
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    #[serde(default)]
    pub inactivity_ms: Option<u64>,
    /// Answer as soon as the execution is recorded, and let it run on.
    #[serde(default)]
    pub background: bool,
    #[serde(default)]
    pub tty: bool,
    /// The initial terminal size. Null: the default.
    #[serde(default)]
    pub tty_size: Option<TerminalSize>,
    /// False: refuse instead of waiting for a free execution slot.
    #[serde(default = "yes")]
    pub queue: bool,
}

fn yes() -> bool {
    true
}

impl ExecRequest {
    /// A request with defaults for everything but the command.
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

/// The result of an ended execution.
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
    /// The usage of the whole sandbox so far.
    pub usage: Option<ResourceUsage>,
}

/// One execution, running or ended.
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
    /// All attempts so far, where the execution can be retried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
    /// The URL of its output.
    pub output_url: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionState {
    Queued,
    Running,
    /// The process has ended, and its artifacts are being collected. The outcome follows.
    Collecting,
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
    /// The input, as text or as base64.
    pub text: Option<String>,
    pub base64: Option<String>,
    /// The offset of this input in the whole stream. Null: append. With an offset, a retry is safe.
    pub at: Option<u64>,
    /// Close the input after these bytes.
    pub close: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StdinAnswer {
    /// Bytes accepted in total: the offset at which to continue.
    pub accepted: u64,
    /// True: no more input is accepted.
    pub closed: bool,
}
