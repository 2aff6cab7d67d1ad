//! Connections as the store wants them: a log that is synced at every commit, and patience with other processes.

use std::path::Path;
use std::thread;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::log;

/// A writer of another process holds the lock for milliseconds. SQLite's own waits grow to a tenth of a second,
/// and then lose the race against everybody else.
const STEP: Duration = Duration::from_millis(1);

const STATEMENTS: usize = 64;

/// How often to try for a lock, a millisecond apart, before saying that the store is busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience(pub u32);

impl Default for Patience {
    fn default() -> Self {
        Self(5_000)
    }
}

pub(super) fn for_writing(path: &Path, patience: Patience) -> rusqlite::Result<Connection> {
    let mut connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    prepare(&mut connection, patience)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", "ON")?;
    // Or a request that is large, and may have to be undone alone, costs a file.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    // The writer copies the log when nobody waits; this is for when it does not come to that.
    connection.pragma_update(None, "wal_autocheckpoint", 8_000)?;
    // What it grew to in a hurry is given back when it begins anew.
    connection.pragma_update(None, "journal_size_limit", log::LENGTH.cast_signed())?;
    Ok(connection)
}

pub(super) fn for_reading(path: &Path, patience: Patience) -> rusqlite::Result<Connection> {
    let mut connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    prepare(&mut connection, patience)?;
    Ok(connection)
}

pub(super) fn in_memory() -> rusqlite::Result<Connection> {
    let mut connection = Connection::open_in_memory()?;
    prepare(&mut connection, Patience::default())?;
    connection.pragma_update(None, "foreign_keys", "ON")?;
    Ok(connection)
}

fn prepare(connection: &mut Connection, patience: Patience) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Or a statement is prepared again for every new value that it is asked with, which costs more than to run it.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    be_patient(connection, patience)
}

pub(super) fn be_patient(connection: &mut Connection, Patience(steps): Patience) -> rusqlite::Result<()> {
    connection.busy_handler(Some(move |tried: i32| {
        let goes_on = u32::try_from(tried).unwrap_or(u32::MAX) < steps;
        if goes_on {
            thread::sleep(STEP);
        }
        goes_on
    }))
}

/// Says which mode holds afterwards: a filesystem without shared memory cannot have the log.
pub(super) fn use_log(connection: &Connection, Patience(steps): Patience) -> rusqlite::Result<String> {
    let mut tried = 0;
    loop {
        let mode = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0));
        match mode {
            // SQLite does not wait here by itself when two processes make the same file at once.
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
    fn what_the_log_grew_to_is_given_back_when_it_begins_anew() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("pinfold.db");
        let length = || std::fs::metadata(path.with_extension("db-wal")).unwrap().len();
        let rows = for_writing(&path, Patience::default()).unwrap();
        use_log(&rows, Patience::default()).unwrap();
        rows.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
        rows.execute_batch("CREATE TABLE many (much BLOB)").unwrap();

        rows.execute("INSERT INTO many VALUES (zeroblob(?1))", [log::LENGTH.cast_signed() + (4 << 20)])
            .unwrap();
        let grown = length();
        rows.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
        rows.execute("DELETE FROM many", []).unwrap();

        assert!(grown > log::LENGTH, "{grown}");
        assert_eq!(length(), log::LENGTH);
    }
}
