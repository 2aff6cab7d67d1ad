//! Reads the log of one sandbox: a page from any position, or new entries as they come.

use std::io;
use std::path::Path;
use std::sync::Arc;

use pinfold_lifecycle::{SandboxId, Timestamp};
use pinfold_provider::OutputLogs;
use pinfold_store::{Row, Store, StoreError};

use crate::archive::{Archive, ArchiveError, Manifest};
use crate::cursor::Cursor;
use crate::entry::LogEntry;
use crate::follow::LogFollower;
use crate::location::{LogLocation, MovedLogs};
use crate::object_storage::ObjectStorage;
use crate::page_limit::{PageLimit, RemainingLimit};
use crate::tail::LogTail;

/// Cheap to clone.
#[derive(Clone)]
pub struct Logs {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) objects: ObjectStorage,
    pub(crate) output: Arc<dyn OutputLogs>,
    pub(crate) moved: MovedLogs,
}

/// Some entries of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPage {
    /// When the last entry of the whole log was made. None: there is none yet.
    pub last_activity: Option<Timestamp>,
    pub entries: Vec<LogEntry>,
    /// Where to go on: the `seq` of the last entry, or the beginning of an empty page.
    pub next: Cursor,
    /// The limit was reached: there may be more entries right now.
    pub more: bool,
    /// No more entries will come: the sandbox is gone, and this was the rest.
    pub finished: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("there is no log of {sandbox}")]
    NoSuchLog { sandbox: SandboxId },
    #[error("could not read the history of the sandbox")]
    Store(#[from] StoreError),
    #[error("could not read the output of the sandbox")]
    Output { source: io::Error },
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error("the log is being moved or removed; try again")]
    Moving,
    #[error("reading was interrupted; try again")]
    Interrupted { source: tokio::task::JoinError },
}

/// How often a read is repeated because the log was moved meanwhile. A log is moved once.
const MAX_ATTEMPTS: usize = 3;

impl Logs {
    /// `moved` is the directory of the marker files. It is created when it is first needed.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        output: Arc<dyn OutputLogs>,
        moved: &Path,
        objects: ObjectStorage,
    ) -> Self {
        Self { store, objects, output, moved: MovedLogs::new(moved) }
    }

    /// Entries after a position, or from the beginning with [`Cursor::default`].
    pub async fn read(
        &self,
        sandbox: SandboxId,
        after: &Cursor,
        limit: PageLimit,
    ) -> Result<LogPage, ReadError> {
        self.follow(sandbox, after.clone(), limit).poll().await
    }

    /// Follows the log from a position.
    #[must_use]
    pub fn follow(&self, sandbox: SandboxId, after: Cursor, limit: PageLimit) -> LogFollower {
        LogFollower::new(self.clone(), sandbox, after, limit)
    }

    /// When the last entry was made. None: there is none yet.
    pub async fn last_activity(&self, sandbox: SandboxId) -> Result<Option<Timestamp>, ReadError> {
        let recorded = self.store.last_record(sandbox).await?.map(|row| row.record.at);
        let written = match self.log_source(sandbox).await? {
            LogSource::Moved(manifest) => Some(manifest.last_activity),
            LogSource::Here => self.last_output(sandbox).await?,
            LogSource::OnlyRecords if recorded.is_none() => return Err(ReadError::NoSuchLog { sandbox }),
            LogSource::OnlyRecords => None,
        };
        Ok(recorded.max(written))
    }

    /// Whether the output of its executions is still kept by the provider on this host.
    pub fn is_here(&self, sandbox: SandboxId) -> Result<bool, ReadError> {
        Ok(self.location(sandbox)? == LogLocation::Here)
    }

    /// Only running executions can have written after the last record.
    async fn last_output(&self, sandbox: SandboxId) -> Result<Option<Timestamp>, ReadError> {
        let Some(Row::Readable(row)) = self.store.load(sandbox).await? else { return Ok(None) };
        if row.sandbox.executions.is_empty() {
            return Ok(None);
        }
        let running: Vec<_> = row.sandbox.executions.iter().map(|execution| execution.id).collect();
        let output = self.output.clone();
        let reading = tokio::task::spawn_blocking(move || output.last_written(sandbox, &running));
        reading
            .await
            .map_err(|source| ReadError::Interrupted { source })?
            .map_err(|source| ReadError::Output { source })
    }

    /// Whether its instance is proven gone, so that nothing more is written. A record is deleted only after that.
    pub(crate) async fn is_gone(&self, sandbox: SandboxId) -> Result<bool, StoreError> {
        Ok(match self.store.load(sandbox).await? {
            None => true,
            Some(Row::Readable(row)) => row.sandbox.is_settled(),
            Some(Row::Unreadable(_)) => false,
        })
    }

    pub(crate) fn archive(&self, sandbox: SandboxId) -> Archive<'_> {
        Archive { objects: &self.objects, sandbox }
    }

    pub(crate) async fn log_source(&self, sandbox: SandboxId) -> Result<LogSource, ReadError> {
        Ok(match self.location(sandbox)? {
            LogLocation::Here => LogSource::Here,
            LogLocation::Moved | LogLocation::NotHere => match self.archive(sandbox).manifest().await? {
                Some(manifest) => LogSource::Moved(manifest),
                None => LogSource::OnlyRecords,
            },
        })
    }

    pub(crate) fn location(&self, sandbox: SandboxId) -> Result<LogLocation, ReadError> {
        let find = || {
            Ok(if self.moved.contains(sandbox)? {
                LogLocation::Moved
            } else if self.output.exists(sandbox)? {
                LogLocation::Here
            } else {
                LogLocation::NotHere
            })
        };
        find().map_err(|source| ReadError::Output { source })
    }

    /// One page, with a tail that reads on from its end. A read during which the log was moved is repeated.
    pub(crate) async fn page(
        &self,
        sandbox: SandboxId,
        after: &Cursor,
        limit: PageLimit,
    ) -> Result<(LogTail, Vec<LogEntry>, RemainingLimit), ReadError> {
        for _ in 0..MAX_ATTEMPTS {
            let before = self.location(sandbox)?;
            let mut left = RemainingLimit::of(limit);
            let mut reader = after.clone();
            let (mut entries, output) = match self.log_source(sandbox).await? {
                LogSource::Here => (Vec::new(), Some(self.output.clone())),
                LogSource::OnlyRecords => (Vec::new(), None),
                LogSource::Moved(manifest) => {
                    match self.archive(sandbox).read(&manifest, &mut reader, &mut left).await {
                        // The log may have been deleted meanwhile: then there is no manifest either.
                        Err(ArchiveError::Damaged { .. })
                            if self.archive(sandbox).manifest().await?.is_none() =>
                        {
                            continue;
                        }
                        read => (read?, None),
                    }
                }
            };
            let mut tail = LogTail::after(sandbox, reader, output);
            if !left.is_used_up() {
                let more;
                (tail, more) = tail.entries(self.store.as_ref(), &mut left).await?;
                entries.extend(more);
            }
            if self.location(sandbox)? == before {
                return Ok((tail, entries, left));
            }
        }
        Err(ReadError::Moving)
    }
}

/// Where a log is read from, except for records after it.
pub(crate) enum LogSource {
    Here,
    Moved(Manifest),
    OnlyRecords,
}
