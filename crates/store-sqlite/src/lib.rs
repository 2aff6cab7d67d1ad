//! The store on SQLite: one database file in a directory, used by any number of processes at once.
//!
//! [`SqliteStore`] is for programs: one thread per process writes, and reads run beside it. [`InlineStore`] has no
//! threads and can inject faults: it is for simulations and tests. Both are a [`Sqlite`] with another executor.
//!
//! ```text
//!   caller --write--> no other writer: the caller's own thread -----------+
//!     |               otherwise: the writer thread's queue --> one batch --+--> WriteConnection
//!     |                                                                    |    BEGIN IMMEDIATE
//!     |                                                                    |    SAVEPOINT per request
//!     |                                                                    |    COMMIT = one fsync
//!     +--read---> an idle read-only connection (WAL: never blocks the writer)
//! ```
//!
//! # Errors
//!
//! A refused request is rolled back to its savepoint; the others of its batch go on. If the fsync of a commit fails,
//! `commit_recovery.rs` finds out from the database whether the batch was written.

mod alerts;
mod audit_log;
mod commit;
mod commit_recovery;
mod condition;
mod connect;
mod consistency;
mod create;
mod env_seal;
mod errors;
mod executions;
mod executor;
mod file_watch;
mod inline;
mod json;
mod key_file;
mod lock_check;
mod lock_holder;
mod metrics;
mod migrate;
mod monitor;
mod open;
mod paths;
mod pool;
mod prune;
mod queue;
mod quotas;
mod read;
mod readers;
mod requests;
mod reserve;
mod schedule;
mod schema;
mod tokens;
mod totals;
mod unreadable;
mod wal_file;
mod write_connection;
mod writer;

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::Connection;

pub use connect::LockTimeout;
pub use inline::{Inline, InlineStore, WriteFault};
pub use paths::StorePaths;
pub use write_connection::WriteCounts;

use condition::Condition;
use env_seal::EnvSeal;
use errors::TransactionError;
use executor::Executor;
use monitor::Monitor;
use pinfold_store::{OpenError, StoreError};
use readers::Readers;
use requests::WriteRequest;
use write_connection::WriteAnswer;
use writer::Writer;

/// A SQLite database behind the traits of `pinfold_store`; `E` decides on which thread statements run.
pub struct Sqlite<E> {
    executor: E,
}

/// A store on a file that any number of processes may use at once.
pub type SqliteStore = Sqlite<Threads>;

/// One thread writes; reads run on the thread of the caller.
pub struct Threads {
    store_id: u128,
    env_seal: EnvSeal,
    condition: Arc<Condition>,
    // Fields are dropped in order. The writer closes last, since the last connection copies the WAL into the database.
    _monitor: Monitor,
    readers: Readers,
    writer: Writer,
}

impl Sqlite<Threads> {
    /// Opens a store with all its files in this directory, and creates it if it is missing. For tests and benchmarks:
    /// a copy of the directory includes the key.
    pub fn open(directory: &Path) -> Result<Self, OpenError> {
        Self::open_with(&StorePaths::in_one_directory(directory), LockTimeout::default())
    }

    /// Opens the store, and creates it if it is missing.
    pub fn open_with(paths: &StorePaths, lock_timeout: LockTimeout) -> Result<Self, OpenError> {
        let (writer, opened) = Writer::start(paths, lock_timeout)?;
        let readers = Readers::over(opened.path.clone(), lock_timeout)
            .map_err(|error| OpenError::Failed { path: opened.path.clone(), source: Box::new(error) })?;
        let (store_id, condition) = (opened.store_id, opened.condition);
        let env_seal = EnvSeal::over(&paths.key_file, opened.key);
        let _monitor = Monitor::start(opened.path.clone(), condition.clone())
            .map_err(|error| OpenError::Failed { path: opened.path, source: Box::new(error) })?;
        Ok(Self { executor: Threads { store_id, env_seal, condition, _monitor, readers, writer } })
    }

    /// Commits, requests and checkpoints since this store was opened.
    #[must_use]
    pub fn counts(&self) -> WriteCounts {
        self.executor.writer.counts()
    }
}

#[async_trait]
impl Executor for Threads {
    fn id(&self) -> u128 {
        self.store_id
    }

    fn env_seal(&self) -> &EnvSeal {
        &self.env_seal
    }

    fn problem(&self) -> Option<String> {
        self.condition.problem().or_else(|| self.env_seal.problem())
    }

    async fn write(&self, write: WriteRequest) -> WriteAnswer {
        self.writer.write(write).await
    }

    fn read<T>(
        &self,
        action: &'static str,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.readers.read(action, query)
    }

    fn read_few<T>(
        &self,
        action: &'static str,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        match self.writer.read_if_free(query) {
            Ok(answer) => answer.map_err(|error| TransactionError::of(action, error).into()),
            Err(query) => self.readers.read(action, query),
        }
    }
}
