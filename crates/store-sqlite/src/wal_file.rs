//! The file of SQLite's write-ahead log. A sync of overwritten bytes costs half of a sync that extends the file, since
//! the file's length need not be synced. So the file is extended once, ahead of need.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

/// More than is written between two checkpoints. From then on SQLite overwrites the file from its beginning.
pub(crate) const LENGTH: u64 = 16 << 20;
const STEP: usize = 1 << 20;

/// Extends the WAL of this database with zeros. Other processes may write to it at the same time: zeros are only
/// appended, and SQLite reads them as the end of the log.
pub(crate) fn grow(database: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).open(database.with_extension("db-wal"))?;
    let zeros = vec![0; STEP];
    while file.metadata()?.len() < LENGTH {
        file.write_all(&zeros)?;
    }
    file.sync_data()
}
