//! The embedded store: one SQLite file in a directory, used by any number of processes at once. One thread per
//! process writes, and gathers what comes in at the same time into one transaction; reads run beside it.

mod alerts;
mod audit;
mod chores;
mod commit;
mod connect;
mod consistency;
mod create;
mod db;
mod executions;
mod failure;
mod inline;
mod ledger;
mod locks;
mod log;
mod measures;
mod migrate;
mod open;
mod pool;
mod prune;
mod queue;
mod quotas;
mod read;
mod readers;
mod runs;
mod schema;
mod settle;
mod text;
mod tokens;
mod unreadable;
mod write;
mod writer;

use std::path::Path;

use async_trait::async_trait;
use rusqlite::Connection;

pub use connect::Patience;
pub use db::Counts;
pub use inline::{Fault, InlineStore};

use crate::{OpenError, StoreError};
use db::Answer;
use failure::Failure;
use readers::Readers;
use runs::Runs;
use write::Write;
use writer::Writer;

pub struct SqliteStore {
    instance: u128,
    // The writer is the last to close, and puts the log into the database then: fields are dropped in order.
    readers: Readers,
    writer: Writer,
}

impl SqliteStore {
    /// Opens the store in this directory, and makes it if it is not there.
    pub fn open(directory: &Path) -> Result<Self, OpenError> {
        Self::open_with(directory, Patience::default())
    }

    pub fn open_with(directory: &Path, patience: Patience) -> Result<Self, OpenError> {
        let (writer, place) = Writer::start(directory, patience)?;
        let readers = Readers::over(place.path.clone(), patience)
            .map_err(|error| OpenError::Failed { path: place.path, source: Box::new(error) })?;
        Ok(Self { instance: place.instance, readers, writer })
    }

    /// Where the rows disagree with each other. Nowhere, if all is well; it reads everything.
    pub fn disagreements(&self) -> Result<Vec<String>, StoreError> {
        self.read("compare the rows", consistency::disagreements)
    }

    /// What the disk was asked to do since this store was opened.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.writer.counts()
    }
}

#[async_trait]
impl Runs for SqliteStore {
    fn id(&self) -> u128 {
        self.instance
    }

    async fn write(&self, write: Write) -> Answer {
        self.writer.write(write).await
    }

    fn read<T>(
        &self,
        doing: &'static str,
        question: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.readers.read(doing, question)
    }

    fn read_little<T>(
        &self,
        doing: &'static str,
        question: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        match self.writer.read_if_free(question) {
            Ok(answer) => answer.map_err(|error| Failure::of(doing, error).into()),
            Err(question) => self.readers.read(doing, question),
        }
    }
}
