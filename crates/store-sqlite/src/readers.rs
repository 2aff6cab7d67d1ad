//! A pool of read-only connections. A read runs on the thread of its caller: it takes some ten microseconds, less than
//! a switch to another thread.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;

use rusqlite::Connection;

use crate::connect::{self, LockTimeout};
use crate::errors::TransactionError;
use pinfold_store::StoreError;

/// Idle connections that are kept: one per processor, since more could not read at the same time and each has a page
/// cache. Under load more are opened for a moment.
fn idle_limit() -> usize {
    const MAX: usize = 8;
    thread::available_parallelism().map_or(1, NonZeroUsize::get).min(MAX)
}

/// At least one connection is open at all times. While one is, SQLite forgets a transaction whose sync has failed when
/// the writer reopens, instead of recovering it from the WAL.
pub(crate) struct Readers {
    path: PathBuf,
    lock_timeout: LockTimeout,
    idle: Mutex<Vec<Connection>>,
    idle_limit: usize,
}

impl Readers {
    pub(crate) fn over(path: PathBuf, lock_timeout: LockTimeout) -> rusqlite::Result<Self> {
        let first = connect::for_reading(&path, lock_timeout)?;
        // A connection opens the WAL at its first read.
        first.query_row("SELECT last_seq FROM totals", [], |_| Ok(()))?;
        Ok(Self { path, lock_timeout, idle: Mutex::new(vec![first]), idle_limit: idle_limit() })
    }

    pub(crate) fn read<T>(
        &self,
        action: &'static str,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let failed = |error| StoreError::from(TransactionError::of(action, error));
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => connect::for_reading(&self.path, self.lock_timeout).map_err(failed)?,
        };
        let answer = query(&connection).map_err(failed);
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < self.idle_limit {
            idle.push(connection);
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_concurrent_reads_leave_no_more_idle_connections_than_processors() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pinfold.db");
        let rows = Connection::open(&path).unwrap();
        rows.execute_batch("CREATE TABLE totals (last_seq INTEGER); INSERT INTO totals VALUES (1)").unwrap();
        let readers = Readers::over(path, LockTimeout::default()).unwrap();
        let all_reading = std::sync::Barrier::new(3 * idle_limit());

        thread::scope(|scope| {
            for _ in 0..3 * idle_limit() {
                scope.spawn(|| readers.read("wait", |_| Ok(all_reading.wait())).map(drop).unwrap());
            }
        });

        assert_eq!(readers.idle.lock().unwrap().len(), idle_limit());
    }
}
