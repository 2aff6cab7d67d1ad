//! Runs of agents: what is asked for, and what has become of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Cause, ExecutionState, Output, Receipt, Used};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AgentRequest {
    /// Whatever this run is for, by the name its caller knows it by.
    #[schema(min_length = 1, max_length = 256)]
    pub task_id: String,
    /// Which profile of limits it gets.
    pub agent_type: String,
    pub context: AgentContext,
}

/// What runs, and with what. Either `command` or `script`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentContext {
    /// The program and its arguments. No shell reads it.
    #[serde(default)]
    pub command: Option<Vec<String>>,
    /// Run by the program that its first line names, else by `/bin/sh`.
    #[serde(default)]
    pub script: Option<String>,
    /// By their paths, from the root or from where work is done. They are there before the command is, in every try.
    #[serde(default)]
    pub files: BTreeMap<String, AgentFile>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The paths of files that are kept when the command has ended.
    #[serde(default)]
    pub artifacts: Vec<String>,
}

/// The text of a file, or more about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum AgentFile {
    Text(String),
    Described(DescribedFile),
}

/// Either `text` or `base64`.
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

/// A run, whether it has ended or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentRun {
    pub execution_id: String,
    pub sandbox_id: String,
    pub task_id: Option<String>,
    pub agent_type: Option<String>,
    pub state: ExecutionState,
    pub exit_code: Option<i32>,
    /// Why the command ended. None: it has not.
    pub cause: Option<Cause>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    #[schema(format = DateTime)]
    pub asked_at: String,
    #[schema(format = DateTime)]
    pub started_at: Option<String>,
    #[schema(format = DateTime)]
    pub ended_at: Option<String>,
    /// Every try, in order, each in a body of its own.
    pub attempts: Vec<Attempt>,
    /// Of all tries together, as far as it was counted.
    pub usage: Used,
    /// What it wrote, once it has ended. The output of all tries is one, in order.
    pub output: Option<Output>,
    /// What was asked to be kept, and what has become of it.
    pub artifacts: Vec<Artifact>,
    /// The proof that its last body is gone. None: it is not, yet.
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

/// One try of an execution, in the body of one generation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Attempt {
    pub generation: u64,
    /// None: its process was never seen to start.
    #[schema(format = DateTime)]
    pub started_at: Option<String>,
    /// None: it goes on.
    #[schema(format = DateTime)]
    pub ended_at: Option<String>,
    pub cause: Option<Cause>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The proof that its body is gone.
    pub receipt: Option<Receipt>,
}

/// A file that was asked to be kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Artifact {
    /// Its path without the slash of the root.
    pub name: String,
    pub state: ArtifactState,
    pub size: Option<u64>,
    pub sha256: Option<String>,
    pub content_type: Option<String>,
    #[schema(format = DateTime)]
    pub kept_at: Option<String>,
    /// Why it is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Where its content is.
    pub url: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactState {
    /// The command has not ended.
    Awaited,
    Kept,
    /// It was not there, or could not be kept, or has made room since.
    Missing,
}
