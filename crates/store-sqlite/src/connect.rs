//! SQLite connections with the settings of the store: a WAL that is synced at every commit, and a lock timeout.

use std::path::Path;
use std::thread;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::wal_file;

/// A writer of another process holds the lock for milliseconds. SQLite's own busy handler sleeps for up to a tenth of a
/// second, and then loses the race against processes that try more often.
const STEP: Duration = Duration::from_millis(1);

const STATEMENTS: usize = 64;

/// How often to try for a lock, a millisecond apart, before the store is reported as busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockTimeout(pub u32);

impl Default for LockTimeout {
    fn default() -> Self {
        Self(5_000)
    }
}

pub(crate) fn for_writing(path: &Path, lock_timeout: LockTimeout) -> rusqlite::Result<Connection> {
    let mut connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    prepare(&mut connection, lock_timeout)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", "ON")?;
    // Otherwise the savepoint of a large request makes a temporary file.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    // The writer checkpoints while it is idle. This limit is for a writer that never is.
    connection.pragma_update(None, "wal_autocheckpoint", 8_000)?;
    // A WAL that grew under load is cut back to this length when it restarts.
    connection.pragma_update(None, "journal_size_limit", wal_file::LENGTH.cast_signed())?;
    Ok(connection)
}

pub(crate) fn for_reading(path: &Path, lock_timeout: LockTimeout) -> rusqlite::Result<Connection> {
    let mut connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    prepare(&mut connection, lock_timeout)?;
    Ok(connection)
}

pub(crate) fn in_memory() -> rusqlite::Result<Connection> {
    let mut connection = Connection::open_in_memory()?;
    prepare(&mut connection, LockTimeout::default())?;
    connection.pragma_update(None, "foreign_keys", "ON")?;
    Ok(connection)
}

fn prepare(connection: &mut Connection, lock_timeout: LockTimeout) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Otherwise SQLite prepares a statement again for new parameter values, which costs more than to run it.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    set_lock_timeout(connection, lock_timeout)
}

pub(crate) fn set_lock_timeout(
    connection: &mut Connection,
    LockTimeout(steps): LockTimeout,
) -> rusqlite::Result<()> {
    connection.busy_handler(Some(move |tried: i32| {
        let goes_on = u32::try_from(tried).unwrap_or(u32::MAX) < steps;
        if goes_on {
            thread::sleep(STEP);
        }
        goes_on
    }))
}

/// Returns the journal mode that is set afterwards: a filesystem without shared memory has no WAL.
pub(crate) fn enable_wal(
    connection: &Connection,
    LockTimeout(steps): LockTimeout,
) -> rusqlite::Result<String> {
    let mut tried = 0;
    loop {
        let mode = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0));
        match mode {
            // SQLite's busy handler is not called here if two processes create the same file at once.
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && tried < steps => {
                tried += 1;
                thread::sleep(STEP);
            }
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wal_that_grew_is_cut_back_when_it_restarts() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("pinfold.db");
        let length = || std::fs::metadata(path.with_extension("db-wal")).unwrap().len();
        let rows = for_writing(&path, LockTimeout::default()).unwrap();
        enable_wal(&rows, LockTimeout::default()).unwrap();
        rows.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
        rows.execute_batch("CREATE TABLE many (much BLOB)").unwrap();

        rows.execute("INSERT INTO many VALUES (zeroblob(?1))", [wal_file::LENGTH.cast_signed() + (4 << 20)])
            .unwrap();
        let grown = length();
        rows.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
        rows.execute("DELETE FROM many", []).unwrap();

        assert!(grown > wal_file::LENGTH, "{grown}");
        assert_eq!(length(), wal_file::LENGTH);
    }
}
