//! The files of a store. Its key and the marker of its id lie outside the directory of the database, so that a copy of
//! that directory tells no secret, and its loss is noticed.

use std::path::{Path, PathBuf};

const KEY_FILE: &str = "secrets.key";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorePaths {
    /// The database with its log and its locks.
    pub directory: PathBuf,
    /// The key that environment variables are encrypted with.
    pub key_file: PathBuf,
    /// Holds the id of the store, so that a lost store is not mistaken for a new one. None: `directory` may be emptied to
    /// begin anew.
    pub id_file: Option<PathBuf>,
    /// Room that is kept back for a full disk. None: no room is.
    pub reserve_file: Option<PathBuf>,
}

impl StorePaths {
    /// The store of a data directory.
    #[must_use]
    pub fn of_data_directory(data: &Path) -> Self {
        Self {
            directory: data.join("store"),
            key_file: data.join(KEY_FILE),
            id_file: Some(data.join("store.id")),
            reserve_file: Some(data.join("disk.reserve")),
        }
    }

    /// Everything in one directory, for tests and benchmarks.
    #[must_use]
    pub fn in_one_directory(directory: &Path) -> Self {
        Self {
            directory: directory.to_path_buf(),
            key_file: directory.join(KEY_FILE),
            id_file: None,
            reserve_file: None,
        }
    }
}
