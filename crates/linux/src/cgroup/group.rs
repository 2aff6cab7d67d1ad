//! One cgroup in one hierarchy. Its operations are in the file of each operation.

use std::path::PathBuf;

use super::detect::Version;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) version: Version,
    pub(super) directory: PathBuf,
}

impl Group {
    pub(super) fn child(&self, name: &str) -> Group {
        Group { version: self.version, directory: self.directory.join(name) }
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}
