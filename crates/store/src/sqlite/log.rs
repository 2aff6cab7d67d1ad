//! The file of SQLite's log. A sync of bytes that were there before costs half of one that makes the file longer, since
//! its length needs no sync of its own.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

/// More than is written between two copies of the log into the database; from then on it is written over.
pub(super) const LENGTH: u64 = 16 << 20;
const STEP: usize = 1 << 20;

/// Makes the log of this database so long. Others may write to it at the same time: zeros are only ever added behind
/// all that is there, where they are the end of the log to whoever reads it.
pub(super) fn grow(database: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).open(database.with_extension("db-wal"))?;
    let zeros = vec![0; STEP];
    while file.metadata()?.len() < LENGTH {
        file.write_all(&zeros)?;
    }
    file.sync_data()
}
