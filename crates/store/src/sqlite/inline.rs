//! The same store without threads: every call is done when it returns. For simulations, which decide the order of
//! everything and the failures too.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use rusqlite::Connection;

use super::connect::Patience;
use super::db::{Answer, Counts, Db};
use super::failure::{Failure, WriteError};
use super::runs::Runs;
use super::write::Write;
use super::{consistency, open};
use crate::{OpenError, StoreError};

/// How a write is made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    DiskFull,
    Busy,
    /// The answer is `Unclear`, and nothing was written.
    UnclearNotWritten,
    /// The answer is `Unclear`, and it was written.
    UnclearWritten,
}

/// Asked before every write.
type Faults = Box<dyn FnMut() -> Option<Fault> + Send>;

pub struct InlineStore {
    instance: u128,
    inner: Mutex<Inner>,
}

struct Inner {
    db: Db,
    faults: Faults,
}

impl InlineStore {
    /// The instance id is given, so that a simulation is decided by its seed alone.
    pub fn in_memory(instance: u128) -> Result<Self, OpenError> {
        Self::over(None, instance)
    }

    /// Over a file that no other process uses. An instance id that it has already holds.
    pub fn on_file(path: &Path, instance: u128) -> Result<Self, OpenError> {
        Self::over(Some(path), instance)
    }

    fn over(path: Option<&Path>, given: u128) -> Result<Self, OpenError> {
        let patience = Patience::default();
        let failed = |error| OpenError::Failed {
            path: path.unwrap_or(Path::new(":memory:")).to_path_buf(),
            source: Box::new(error),
        };
        let (connection, instance) = open::open_alone(path, given, patience)?;
        let db = Db::over(connection, path, 0, patience).map_err(failed)?;
        let faults: Faults = Box::new(|| None);
        Ok(Self { instance, inner: Mutex::new(Inner { db, faults }) })
    }

    /// From now on this decides before every write whether it fails.
    pub fn fail_writes(&self, faults: impl FnMut() -> Option<Fault> + Send + 'static) {
        self.inner().faults = Box::new(faults);
    }

    /// The next so many writes fail.
    pub fn fail_next_writes(&self, count: usize, fault: Fault) {
        let mut left = count;
        self.fail_writes(move || {
            left = left.checked_sub(1)?;
            Some(fault)
        });
    }

    /// Where the rows disagree with each other. Nowhere, if all is well; it reads everything.
    pub fn disagreements(&self) -> Result<Vec<String>, StoreError> {
        self.read("compare the rows", consistency::disagreements)
    }

    /// What the disk was asked to do since this store was opened.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.inner().db.counts()
    }

    /// Runs SQL as it is, to put the store into states that its own methods do not allow.
    #[cfg(feature = "conformance")]
    pub fn tamper(&self, sql: &str) -> Result<(), StoreError> {
        self.read("tamper with the rows", |rows| rows.execute_batch(sql))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Runs for InlineStore {
    fn id(&self) -> u128 {
        self.instance
    }

    async fn write(&self, write: Write) -> Answer {
        let mut inner = self.inner();
        let fault = (inner.faults)();
        if let Some(fault @ (Fault::DiskFull | Fault::Busy | Fault::UnclearNotWritten)) = fault {
            return Err(WriteError::Store(fault.error()));
        }
        let answer = inner.db.write(&[write]).pop();
        let answer = answer.unwrap_or(Err(WriteError::Store(StoreError::Closed)))?;
        inner.db.do_chores();
        match fault {
            Some(fault) => Err(WriteError::Store(fault.error())),
            None => Ok(answer),
        }
    }

    fn read<T>(
        &self,
        doing: &'static str,
        question: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        question(self.inner().db.connection()).map_err(|error| Failure::of(doing, error).into())
    }
}

impl Fault {
    fn error(self) -> StoreError {
        let source = "injected".into();
        match self {
            Self::DiskFull => StoreError::DiskFull { source },
            Self::Busy => StoreError::Busy { source },
            Self::UnclearNotWritten | Self::UnclearWritten => StoreError::Unclear { source },
        }
    }
}
