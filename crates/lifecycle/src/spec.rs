//! The specification of a sandbox and of a command, as the store keeps them and providers read them. The lifecycle
//! does not interpret them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Demand, ExecutionFiles, ExecutionLimits, QuotaKey, TokenId};

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    pub name: Option<String>,
    pub agent_type: Option<String>,
    pub task_id: Option<String>,
    pub labels: BTreeMap<String, String>,
    /// An emergency cleanup spares it.
    pub critical: bool,
    /// `None`: the provider's default.
    pub image: Option<String>,
    pub env: BTreeMap<String, String>,
    pub workdir: Option<String>,
    pub limits: Limits,
    /// Limits of executions that do not set their own.
    pub execution: ExecutionLimits,
    /// The token of the create request. `None`: no token was required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_by: Option<Requester>,
}

/// The token of a request, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requester {
    pub token: TokenId,
    /// The token's name at that time.
    pub name: String,
}

/// Limits of one instance. `None`: the provider's default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub memory_mb: Option<u64>,
    /// Thousandths of one core.
    pub cpu_millis: Option<u32>,
    /// Of one execution with all its processes.
    pub cpu_time_ms: Option<u64>,
    pub network_requests: Option<u64>,
    pub disk_mb: Option<u64>,
    /// Files and directories.
    pub inodes: Option<u64>,
    pub processes: Option<u64>,
    /// Of one process.
    pub open_files: Option<u64>,
    pub output_mb: Option<u64>,
    /// Limit of executions, output chunks and file requests of one instance, taken together.
    pub operations: Option<u64>,
}

impl Spec {
    /// The resources that count against the admission limits.
    #[must_use]
    pub fn demand(&self) -> Demand {
        Demand {
            memory_mb: self.limits.memory_mb.unwrap_or(0),
            disk_mb: self.limits.disk_mb.unwrap_or(0),
            processes: self.limits.processes.unwrap_or(0),
        }
    }

    /// The quota keys that count this sandbox.
    #[must_use]
    pub fn quota_keys(&self) -> Vec<QuotaKey> {
        let token = self.requested_by.iter().map(|requester| QuotaKey::Token(requester.token));
        let labels = self.labels.iter();
        let labels = labels.map(|(name, value)| QuotaKey::Label { name: name.clone(), value: value.clone() });
        let name = self.name.iter().map(|name| QuotaKey::Name(name.clone()));
        token.chain(labels).chain(name).collect()
    }

    /// The command with the sandbox's environment and working directory as defaults. The command's own values take
    /// precedence.
    #[must_use]
    pub fn with_defaults(&self, mut command: Command) -> Command {
        for (name, value) in &self.env {
            command.env.entry(name.clone()).or_insert_with(|| value.clone());
        }
        command.workdir = command.workdir.or_else(|| self.workdir.clone());
        command
    }
}

/// The command of one execution.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct Command {
    pub argv: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub workdir: Option<String>,
    /// Run on a terminal, which also accepts input.
    pub tty: bool,
    /// Initial columns and rows of the terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tty_size: Option<(u16, u16)>,
    /// Give the process a pipe as standard input. Otherwise standard input is empty.
    pub stdin: bool,
    #[serde(default, skip_serializing_if = "ExecutionFiles::is_empty")]
    pub execution_files: ExecutionFiles,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn command_values_take_precedence_over_sandbox_defaults() {
        let env = variables(&[("A", "of the sandbox"), ("B", "of the sandbox")]);
        let spec = Spec { env, workdir: Some("/srv".into()), ..Spec::default() };
        let bare = Command { env: variables(&[("A", "own")]), ..Command::default() };
        let placed = Command { workdir: Some("/tmp".into()), ..Command::default() };

        let furnished = spec.with_defaults(bare);

        assert_eq!(furnished.env, variables(&[("A", "own"), ("B", "of the sandbox")]));
        assert_eq!(furnished.workdir.as_deref(), Some("/srv"));
        assert_eq!(spec.with_defaults(placed).workdir.as_deref(), Some("/tmp"));
    }
}
