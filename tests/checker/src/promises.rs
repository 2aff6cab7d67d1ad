//! What the server acknowledged to clients. A client records it here once the response is complete, and not
//! before.

use std::collections::BTreeSet;

use serde_json::Value;

#[derive(Debug, Default)]
pub struct Promises {
    pub sandboxes: Vec<Sandbox>,
    pub executions: Vec<Execution>,
    pub files: Vec<File>,
    /// Requests without a response: the server may or may not have executed them.
    pub unanswered: Vec<CreateRequest>,
    /// Sandboxes whose deletion was answered with a receipt.
    pub deleted: BTreeSet<String>,
    /// Sandboxes whose records a client asked to forget, with an answer or without.
    pub forgotten: BTreeSet<String>,
    /// Successful requests, and all others.
    pub answered: u64,
    pub refused: u64,
}

#[derive(Debug, Clone)]
pub struct Sandbox {
    pub id: String,
    pub request: CreateRequest,
}

/// A create request with its path and idempotency key, so that it can be repeated.
#[derive(Debug, Clone)]
pub struct CreateRequest {
    pub key: String,
    pub path: &'static str,
    pub body: Value,
}

#[derive(Debug, Clone)]
pub struct Execution {
    pub id: String,
    pub sandbox: String,
    pub command: Command,
    /// None: the response came before the execution ended.
    pub exit_code: Option<Option<i64>>,
}

/// What the command prints and its exit code, to compare with the recorded outcome.
#[derive(Debug, Clone)]
pub struct Command {
    pub says: String,
    pub exits_with: i64,
}

#[derive(Debug, Clone)]
pub struct File {
    pub sandbox: String,
    pub path: String,
    pub content: String,
}

impl Promises {
    pub fn add(&mut self, other: Self) {
        let Self { sandboxes, executions, files, unanswered, deleted, forgotten, answered, refused } = other;
        self.sandboxes.extend(sandboxes);
        self.executions.extend(executions);
        self.files.extend(files);
        self.unanswered.extend(unanswered);
        self.deleted.extend(deleted);
        self.forgotten.extend(forgotten);
        self.answered += answered;
        self.refused += refused;
    }
}
