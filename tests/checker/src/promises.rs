//! What was acknowledged to those who asked. Whoever asks notes it here as soon as the answer is whole, and not before.

use std::collections::BTreeSet;

use serde_json::Value;

#[derive(Debug, Default)]
pub struct Promises {
    pub sandboxes: Vec<Sandbox>,
    pub executions: Vec<Execution>,
    pub files: Vec<File>,
    /// Wishes whose answer did not come: they were granted or not.
    pub unanswered: Vec<Wish>,
    /// Sandboxes that were proven gone to somebody.
    pub deleted: BTreeSet<String>,
    /// Sandboxes whose records somebody has asked to be forgotten, with an answer or without.
    pub forgotten: BTreeSet<String>,
    /// Requests that were answered as they should be, and that were not.
    pub answered: u64,
    pub refused: u64,
}

#[derive(Debug, Clone)]
pub struct Sandbox {
    pub id: String,
    pub wish: Wish,
}

/// What was asked for, where and under which key, so that it can be asked for again.
#[derive(Debug, Clone)]
pub struct Wish {
    pub key: String,
    pub path: &'static str,
    pub what: Value,
}

#[derive(Debug, Clone)]
pub struct Execution {
    pub id: String,
    pub sandbox: String,
    pub command: Command,
    /// None: it was accepted, and nothing was said of its end.
    pub exit_code: Option<Option<i64>>,
}

/// What it does, so that one knows what it must have come to if it came to its end.
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
