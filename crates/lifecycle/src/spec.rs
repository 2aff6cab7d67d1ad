//! What was asked for, as the store keeps it and a provider needs it. The lifecycle itself never looks inside.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Demand, ExecutionLimits, Luggage, QuotaKey, TokenId};

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    pub name: Option<String>,
    pub agent_type: Option<String>,
    pub task_id: Option<String>,
    pub labels: BTreeMap<String, String>,
    /// Kept by an emergency cleanup.
    pub critical: bool,
    /// None: the provider's default.
    pub image: Option<String>,
    pub env: BTreeMap<String, String>,
    pub workdir: Option<String>,
    pub limits: Limits,
    /// Of every execution that does not bring its own.
    pub execution: ExecutionLimits,
    /// None: nobody had to show a token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_by: Option<Asker>,
}

/// The token with which it was asked for. Never its secret.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asker {
    pub token: TokenId,
    /// The token's, at that time.
    pub name: String,
}

/// None: the provider's default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
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
    /// Executions, pieces of output and requests for files of one body, all together. It is not written where there is
    /// none: bodies that an earlier version has put into the pool are found by how their limits were written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations: Option<u64>,
}

impl Spec {
    /// What it takes of what all sandboxes share.
    #[must_use]
    pub fn demand(&self) -> Demand {
        Demand {
            memory_mb: self.limits.memory_mb.unwrap_or(0),
            disk_mb: self.limits.disk_mb.unwrap_or(0),
            processes: self.limits.processes.unwrap_or(0),
        }
    }

    /// What it is counted by besides all together.
    #[must_use]
    pub fn quota_keys(&self) -> Vec<QuotaKey> {
        let token = self.asked_by.iter().map(|asker| QuotaKey::Token(asker.token));
        let labels = self.labels.iter();
        let labels = labels.map(|(name, value)| QuotaKey::Label { name: name.clone(), value: value.clone() });
        token.chain(labels).collect()
    }

    /// The command with what the sandbox gives to all of them. What the command itself says goes first.
    #[must_use]
    pub fn furnish(&self, mut command: Command) -> Command {
        for (name, value) in &self.env {
            command.env.entry(name.clone()).or_insert_with(|| value.clone());
        }
        command.workdir = command.workdir.or_else(|| self.workdir.clone());
        command
    }
}

/// What one execution runs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Command {
    pub argv: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub workdir: Option<String>,
    /// It has a terminal of its own, which can also be fed.
    pub tty: bool,
    /// The columns and rows that its terminal begins with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tty_size: Option<(u16, u16)>,
    /// It can be fed by a pipe. Else there is nothing to read.
    pub stdin: bool,
    #[serde(skip_serializing_if = "Luggage::is_empty")]
    pub luggage: Luggage,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_command_keeps_what_it_says_and_gets_the_rest_from_its_sandbox() {
        let env = variables(&[("A", "of the sandbox"), ("B", "of the sandbox")]);
        let spec = Spec { env, workdir: Some("/srv".into()), ..Spec::default() };
        let bare = Command { env: variables(&[("A", "own")]), ..Command::default() };
        let placed = Command { workdir: Some("/tmp".into()), ..Command::default() };

        let furnished = spec.furnish(bare);

        assert_eq!(furnished.env, variables(&[("A", "own"), ("B", "of the sandbox")]));
        assert_eq!(furnished.workdir.as_deref(), Some("/srv"));
        assert_eq!(spec.furnish(placed).workdir.as_deref(), Some("/tmp"));
    }
}
