//! Read-only connections beside the writer. A read runs on the thread that asks: it takes some ten microseconds,
//! less than to hand it to another thread.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;

use rusqlite::Connection;

use super::connect::{self, Patience};
use super::failure::Failure;
use crate::StoreError;

/// More could not read at the same time, and each has pages in memory. Where one has to wait for its turn, another may
/// be wanted for a moment.
fn kept() -> usize {
    const MOST: usize = 8;
    thread::available_parallelism().map_or(1, NonZeroUsize::get).min(MOST)
}

/// At least one connection is open at all times. While one is, a transaction whose sync has failed is forgotten
/// when the writer reopens, instead of being found again in the log.
pub(super) struct Readers {
    path: PathBuf,
    patience: Patience,
    idle: Mutex<Vec<Connection>>,
    kept: usize,
}

impl Readers {
    pub(super) fn over(path: PathBuf, patience: Patience) -> rusqlite::Result<Self> {
        let first = connect::for_reading(&path, patience)?;
        // A connection takes part in the log from its first read on.
        first.query_row("SELECT seq FROM ledger", [], |_| Ok(()))?;
        Ok(Self { path, patience, idle: Mutex::new(vec![first]), kept: kept() })
    }

    pub(super) fn read<T>(
        &self,
        doing: &'static str,
        question: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let failed = |error| StoreError::from(Failure::of(doing, error));
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => connect::for_reading(&self.path, self.patience).map_err(failed)?,
        };
        let answer = question(&connection).map_err(failed);
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < self.kept {
            idle.push(connection);
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_of_readers_leaves_no_more_open_than_can_read_at_once() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("pinfold.db");
        let rows = Connection::open(&path).unwrap();
        rows.execute_batch("CREATE TABLE ledger (seq INTEGER); INSERT INTO ledger VALUES (1)").unwrap();
        let readers = Readers::over(path, Patience::default()).unwrap();
        let all_are_in = std::sync::Barrier::new(3 * kept());

        thread::scope(|scope| {
            for _ in 0..3 * kept() {
                scope.spawn(|| readers.read("wait", |_| Ok(all_are_in.wait())).map(drop).unwrap());
            }
        });

        assert_eq!(readers.idle.lock().unwrap().len(), kept());
    }
}
