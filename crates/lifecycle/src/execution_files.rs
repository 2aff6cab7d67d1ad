//! Input files and artifacts of an execution. They are part of the stored command, so that every attempt gets the same
//! files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct ExecutionFiles {
    /// Files written before the command starts, by path: absolute, or relative to the working directory.
    pub files: BTreeMap<String, InputFile>,
    /// Paths of the files to collect after the command has ended.
    pub artifacts: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputFile {
    pub content: FileContent,
    pub executable: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileContent {
    Text(String),
    Base64(String),
}

/// Which files move with an execution. The lifecycle does not hold their paths or contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct FileTransfers {
    /// Input files are written before the process starts.
    pub input: bool,
    /// Artifacts are collected after the process has ended.
    pub artifacts: bool,
}

impl FileTransfers {
    #[must_use]
    pub fn is_none(&self) -> bool {
        !self.input && !self.artifacts
    }
}

impl ExecutionFiles {
    #[must_use]
    pub fn transfers(&self) -> FileTransfers {
        FileTransfers { input: !self.files.is_empty(), artifacts: !self.artifacts.is_empty() }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.artifacts.is_empty()
    }
}
