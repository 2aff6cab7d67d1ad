//! The log of one sandbox, for whoever asks: a page of it from anywhere, or what comes next as it comes.

use std::io;
use std::path::Path;
use std::sync::Arc;

use pinfold_lifecycle::{SandboxId, Timestamp};
use pinfold_store::{Row, Store, StoreError};

use crate::archive::{Archive, ArchiveError, Manifest};
use crate::cursor::Cursor;
use crate::entry::Entry;
use crate::follow::Follow;
use crate::limit::{Left, Limit};
use crate::objects::Objects;
use crate::places::{Place, Places};
use crate::tail::Tail;

/// Cheap to clone.
#[derive(Clone)]
pub struct Logs {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) objects: Objects,
    pub(crate) places: Places,
}

/// Some entries of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// When the last entry of the whole log was made. None: there is none yet.
    pub last_activity: Option<Timestamp>,
    pub entries: Vec<Entry>,
    /// Where to go on: the `seq` of the last entry, or where this page began if it is empty.
    pub next: Cursor,
    /// Whether the limit was reached, so that there may be more at once.
    pub more: bool,
    /// Nothing more will come: the sandbox is gone, and this was the rest.
    pub over: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("there is no log of {sandbox}")]
    NoSuchLog { sandbox: SandboxId },
    #[error("could not read what was recorded")]
    Store(#[from] StoreError),
    #[error("could not read what was written")]
    Output { source: io::Error },
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error("the log is being moved or removed; try again")]
    Moving,
    #[error("reading was interrupted; try again")]
    Interrupted,
}

/// How often a log may be moved under a reader before that is told: it is moved once.
const TRIES: usize = 3;

impl Logs {
    /// `outputs` is where the provider of this host keeps what executions write: a directory for each sandbox.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, outputs: &Path, objects: Objects) -> Self {
        Self { store, objects, places: Places::new(outputs) }
    }

    /// Entries after a place, or from the beginning with [`Cursor::default`].
    pub async fn read(&self, sandbox: SandboxId, after: &Cursor, limit: Limit) -> Result<Page, ReadError> {
        self.follow(sandbox, after.clone(), limit).look().await
    }

    /// Goes on from a place, and waits there for more.
    #[must_use]
    pub fn follow(&self, sandbox: SandboxId, after: Cursor, limit: Limit) -> Follow {
        Follow::new(self.clone(), sandbox, after, limit)
    }

    /// When the last entry was made. None: there is none yet.
    pub async fn last_activity(&self, sandbox: SandboxId) -> Result<Option<Timestamp>, ReadError> {
        let recorded = self.store.last_record(sandbox).await?.map(|row| row.record.at);
        let written = match self.look_up(sandbox).await? {
            Found::Moved(manifest) => Some(manifest.last_activity),
            Found::Here(_) => self.last_output(sandbox).await?,
            Found::OnlyRecords if recorded.is_none() => return Err(ReadError::NoSuchLog { sandbox }),
            Found::OnlyRecords => None,
        };
        Ok(recorded.max(written))
    }

    /// Whether what its executions wrote is still in their own files on this host.
    pub fn is_here(&self, sandbox: SandboxId) -> Result<bool, ReadError> {
        Ok(matches!(self.place(sandbox)?, Place::Here(_)))
    }

    /// Only what runs can have written after the last record.
    async fn last_output(&self, sandbox: SandboxId) -> Result<Option<Timestamp>, ReadError> {
        let Some(Row::Readable(row)) = self.store.load(sandbox).await? else { return Ok(None) };
        if row.sandbox.executions.is_empty() {
            return Ok(None);
        }
        let running = row.sandbox.executions.iter().map(|execution| format!("{}.", execution.id));
        let (places, running) = (self.places.clone(), running.collect::<Vec<_>>());
        let looking = tokio::task::spawn_blocking(move || places.last_written(sandbox, &running));
        looking.await.map_err(|_| ReadError::Interrupted)?.map_err(|source| ReadError::Output { source })
    }

    /// Whether its body is proven gone, so that nothing more is written. A record goes only after that.
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

    pub(crate) async fn look_up(&self, sandbox: SandboxId) -> Result<Found, ReadError> {
        Ok(match self.place(sandbox)? {
            Place::Here(directory) => Found::Here(directory),
            Place::Moved | Place::NotHere => match self.archive(sandbox).manifest().await? {
                Some(manifest) => Found::Moved(manifest),
                None => Found::OnlyRecords,
            },
        })
    }

    pub(crate) fn place(&self, sandbox: SandboxId) -> Result<Place, ReadError> {
        self.places.of(sandbox).map_err(|source| ReadError::Output { source })
    }

    /// One page, with a tail that reads on where there is one. What was read while the log was moved does not count.
    pub(crate) async fn page(
        &self,
        sandbox: SandboxId,
        after: &Cursor,
        limit: Limit,
    ) -> Result<(Tail, Vec<Entry>, Left), ReadError> {
        for _ in 0..TRIES {
            let before = self.place(sandbox)?;
            let mut left = Left::of(limit);
            let mut reader = after.clone();
            let (mut entries, directory) = match self.look_up(sandbox).await? {
                Found::Here(directory) => (Vec::new(), Some(directory)),
                Found::OnlyRecords => (Vec::new(), None),
                Found::Moved(manifest) => {
                    match self.archive(sandbox).read(&manifest, &mut reader, &mut left).await {
                        // It may have been removed since: then there is no manifest either.
                        Err(ArchiveError::Damaged { .. })
                            if self.archive(sandbox).manifest().await?.is_none() =>
                        {
                            continue;
                        }
                        read => (read?, None),
                    }
                }
            };
            let mut tail = Tail::after(sandbox, reader, directory);
            if !left.is_none() {
                let more;
                (tail, more) = tail.entries(self.store.as_ref(), &mut left).await?;
                entries.extend(more);
            }
            if self.place(sandbox)? == before {
                return Ok((tail, entries, left));
            }
        }
        Err(ReadError::Moving)
    }
}

/// Where a log is read from, records after it apart.
pub(crate) enum Found {
    Here(std::path::PathBuf),
    Moved(Manifest),
    OnlyRecords,
}
