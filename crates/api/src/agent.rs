//! Agent runs: the request, and the run's state and result.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Cause, ExecutionState, LimitsRequest, Output, Receipt, ResourceUsage};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AgentRequest {
    /// The caller's own id for the task.
    #[schema(min_length = 1, max_length = 256)]
    pub task_id: String,
    /// The profile that sets the limits.
    pub agent_type: String,
    pub context: AgentContext,
    /// Limits that differ from the agent type's.
    #[serde(default, deserialize_with = "crate::object")]
    pub limits: LimitsRequest,
}

/// The command or script to run, and its input. Exactly one of `command` and `script` is required.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentContext {
    /// The program and its arguments. No shell is involved.
    #[serde(default)]
    pub command: Option<Vec<String>>,
    /// Run by the interpreter in its `#!` line, or by `/bin/sh` without one.
    #[serde(default)]
    pub script: Option<String>,
    /// Files by path, absolute or relative to the working directory. They are written before each attempt starts.
    #[serde(default)]
    pub files: BTreeMap<String, AgentFile>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Paths of files to keep after the command has ended.
    #[serde(default)]
    pub artifacts: Vec<String>,
}

/// A file's text, or an object that describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum AgentFile {
    Text(String),
    Described(DescribedFile),
}

/// A file's content: exactly one of `text` and `base64`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DescribedFile {
    #[serde(default)]
    pub text: Option<String>,
    #[serde(default)]
    pub base64: Option<String>,
    #[serde(default)]
    pub executable: bool,
}

/// An agent run, running or ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentRun {
    pub execution_id: String,
    pub sandbox_id: String,
    pub task_id: Option<String>,
    pub agent_type: Option<String>,
    pub state: ExecutionState,
    pub exit_code: Option<i32>,
    /// Why the command ended. Null while it has not.
    pub cause: Option<Cause>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    #[schema(format = DateTime)]
    pub asked_at: String,
    #[schema(format = DateTime)]
    pub started_at: Option<String>,
    #[schema(format = DateTime)]
    pub ended_at: Option<String>,
    /// All attempts, oldest first. Each runs in its own instance.
    pub attempts: Vec<Attempt>,
    /// The sum over all attempts, as far as it was measured.
    pub usage: ResourceUsage,
    /// The output of all attempts, in order. Null until the run has ended.
    pub output: Option<Output>,
    /// The requested artifacts, and the state of each.
    pub artifacts: Vec<Artifact>,
    /// The receipt of the last instance. Null until that instance is proven gone.
    pub receipt: Option<Receipt>,
    pub links: AgentLinks,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentLinks {
    #[serde(rename = "self")]
    pub own: String,
    pub sandbox: String,
    pub execution: String,
    pub output: String,
    pub logs: String,
    pub artifacts: String,
}

/// One attempt of an execution, in the instance of one generation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Attempt {
    pub generation: u64,
    /// Null: no process was seen to start.
    #[schema(format = DateTime)]
    pub started_at: Option<String>,
    /// Null: still running.
    #[schema(format = DateTime)]
    pub ended_at: Option<String>,
    pub cause: Option<Cause>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The receipt that proves its instance gone.
    pub receipt: Option<Receipt>,
}

/// A requested artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Artifact {
    /// The path without the leading slash.
    pub name: String,
    pub state: ArtifactState,
    pub size: Option<u64>,
    pub sha256: Option<String>,
    pub content_type: Option<String>,
    #[schema(format = DateTime)]
    pub kept_at: Option<String>,
    /// Why the file is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The URL of the content.
    pub url: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactState {
    /// The command has not ended yet.
    Awaited,
    Kept,
    /// The file did not exist, could not be stored, or has expired.
    Missing,
}
