//! The files of a store. Its key and the marker of its id lie outside the directory of the database, so that a copy of
//! that directory tells no secret, and its loss is noticed.

use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorePaths {
    /// The database with its log and its locks.
    pub directory: PathBuf,
    /// The key that environment variables are encrypted with.
    pub key_file: PathBuf,
}

impl StorePaths {
    /// The store of a data directory.
    #[must_use]
    pub fn of_data_directory(data: &Path) -> Self {
        Self { directory: data.join("store"), ..Self::in_one_directory(data) }
    }

    /// Everything in one directory, for tests and benchmarks.
    #[must_use]
    pub fn in_one_directory(directory: &Path) -> Self {
        Self { directory: directory.to_path_buf(), key_file: directory.join("secrets.key") }
    }
}
