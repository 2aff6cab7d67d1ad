//! The store without threads: every call is done when it returns. For simulations, which decide the order of all calls
//! and their failures.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use rusqlite::Connection;

use crate::Sqlite;
use crate::connect::LockTimeout;
use crate::env_seal::EnvSeal;
use crate::errors::{TransactionError, WriteError};
use crate::executor::Executor;
use crate::open;
use crate::requests::WriteRequest;
use crate::write_connection::{WriteAnswer, WriteConnection, WriteCounts};
use pinfold_store::{OpenError, StoreError};

/// An injected failure of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WriteFault {
    DiskFull,
    Busy,
    /// The answer is `OutcomeUnknown`, and nothing was written.
    UnknownNotWritten,
    /// The answer is `OutcomeUnknown`, and the write has happened.
    UnknownWritten,
}

/// Called before every write.
type Faults = Box<dyn FnMut() -> Option<WriteFault> + Send>;

/// Runs each statement at once, on the thread of the caller.
pub struct Inline {
    store_id: u128,
    inner: Mutex<Inner>,
}

/// A store without threads.
pub type InlineStore = Sqlite<Inline>;

struct Inner {
    db: WriteConnection,
    faults: Faults,
}

impl Sqlite<Inline> {
    /// The store id is given, so that a simulation depends on its seed alone.
    pub fn in_memory(store_id: u128) -> Result<Self, OpenError> {
        Self::over(None, store_id)
    }

    /// On a file that no other process uses. A store id that the file already has is kept.
    pub fn on_file(path: &Path, store_id: u128) -> Result<Self, OpenError> {
        Self::over(Some(path), store_id)
    }

    fn over(path: Option<&Path>, given: u128) -> Result<Self, OpenError> {
        let lock_timeout = LockTimeout::default();
        let failed = |error| OpenError::Failed {
            path: path.unwrap_or(Path::new(":memory:")).to_path_buf(),
            source: Box::new(error),
        };
        let (connection, store_id) = open::open_alone(path, given, lock_timeout)?;
        let db = WriteConnection::over(connection, path, 0, lock_timeout, None).map_err(failed)?;
        let faults: Faults = Box::new(|| None);
        Ok(Self { executor: Inline { store_id, inner: Mutex::new(Inner { db, faults }) } })
    }

    /// Calls `faults` before every write from now on, to decide whether it fails.
    pub fn fail_writes(&self, faults: impl FnMut() -> Option<WriteFault> + Send + 'static) {
        self.executor.inner().faults = Box::new(faults);
    }

    /// Makes the next `count` writes fail.
    pub fn fail_next_writes(&self, count: usize, fault: WriteFault) {
        let mut left = count;
        self.fail_writes(move || {
            left = left.checked_sub(1)?;
            Some(fault)
        });
    }

    /// Commits, requests and checkpoints since this store was opened.
    #[must_use]
    pub fn counts(&self) -> WriteCounts {
        self.executor.inner().db.counts()
    }

    /// Runs SQL, to make rows in tests that the store itself never writes.
    #[cfg(feature = "conformance")]
    pub fn execute_raw_sql(&self, sql: &str) -> Result<(), StoreError> {
        self.executor.read("run raw SQL", |rows| rows.execute_batch(sql))
    }
}

impl Inline {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Executor for Inline {
    fn id(&self) -> u128 {
        self.store_id
    }

    /// Simulations hold no secrets, and must not depend on random nonces.
    fn env_seal(&self) -> &EnvSeal {
        &EnvSeal::Clear
    }

    fn problem(&self) -> Option<String> {
        None
    }

    async fn write(&self, write: WriteRequest) -> WriteAnswer {
        let mut inner = self.inner();
        let fault = (inner.faults)();
        if let Some(fault @ (WriteFault::DiskFull | WriteFault::Busy | WriteFault::UnknownNotWritten)) = fault
        {
            return Err(WriteError::Store(fault.error()));
        }
        let answer = inner.db.write(&[write]).pop();
        let answer = answer.unwrap_or(Err(WriteError::Store(StoreError::Closed)))?;
        inner.db.run_maintenance();
        match fault {
            Some(fault) => Err(WriteError::Store(fault.error())),
            None => Ok(answer),
        }
    }

    fn read<T>(
        &self,
        action: &'static str,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        query(self.inner().db.connection()).map_err(|error| TransactionError::of(action, error).into())
    }
}

impl WriteFault {
    fn error(self) -> StoreError {
        let source = "injected".into();
        match self {
            Self::DiskFull => StoreError::DiskFull { source },
            Self::Busy => StoreError::Busy { holder: None, source },
            Self::UnknownNotWritten | Self::UnknownWritten => StoreError::OutcomeUnknown { source },
        }
    }
}
