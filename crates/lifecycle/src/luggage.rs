//! What a command finds in its body when it begins, and what is kept of what it leaves there. It is a part of the
//! command, so that every body that the command is tried in is given the same.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Luggage {
    /// By their paths, from the root or from where the command starts. They are there before it is.
    pub files: BTreeMap<String, FileToPut>,
    /// The paths of files that are kept when it has ended.
    pub artifacts: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileToPut {
    pub content: FileContent,
    pub executable: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileContent {
    Text(String),
    Base64(String),
}

impl Luggage {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.artifacts.is_empty()
    }
}
