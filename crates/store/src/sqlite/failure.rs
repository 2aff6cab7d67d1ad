//! What SQLite's failures mean to those who use the store.

use std::fmt;
use std::sync::Arc;

use pinfold_lifecycle::{PlaceId, SandboxId, Scarcity};
use rusqlite::{ErrorCode, ffi};

use crate::{ClaimError, CommitError, CreateError, FillError, StoreError, Version};

/// One failure that many requests are answered with.
#[derive(Debug, Clone)]
pub(super) struct Shared(Arc<dyn std::error::Error + Send + Sync>);

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Shared {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// Why a transaction did not come about.
#[derive(Debug, Clone)]
pub(super) enum Failure {
    DiskFull(Shared),
    Busy(Shared),
    /// Nothing was written.
    Failed {
        doing: &'static str,
        source: Shared,
    },
    /// It may or may not have been written.
    Unclear(Shared),
}

impl Failure {
    pub(super) fn of(doing: &'static str, error: rusqlite::Error) -> Self {
        let code = error.sqlite_error().copied();
        let source = Shared(Arc::new(error));
        match code {
            Some(code) if is_disk_full(code) => Self::DiskFull(source),
            Some(code) if is_busy(code) => Self::Busy(source),
            Some(_) | None => Self::Failed { doing, source },
        }
    }

    /// A newer program has migrated the store meanwhile: this one does not know what its columns mean.
    pub(super) fn schema_moved() -> Self {
        let why = "a newer program has changed the schema; restart this one in its new version";
        Self::Failed {
            doing: "write",
            source: Shared(Arc::from(Box::<dyn std::error::Error + Send + Sync>::from(why))),
        }
    }

    /// The failure of a commit. Where not even SQLite can know what is on the disk, this does not guess.
    pub(super) fn of_commit(error: rusqlite::Error) -> Self {
        match Self::of("commit", error) {
            Self::Failed { source, .. } | Self::Unclear(source) => Self::Unclear(source),
            clear @ (Self::DiskFull(_) | Self::Busy(_)) => clear,
        }
    }

    /// It was unclear, and a look has shown that it was not written.
    pub(super) fn not_written(self) -> Self {
        match self {
            Self::Unclear(source) => Self::Failed { doing: "make a change durable", source },
            clear @ (Self::DiskFull(_) | Self::Busy(_) | Self::Failed { .. }) => clear,
        }
    }
}

fn is_disk_full(code: ffi::Error) -> bool {
    // The shared index of the log is written ahead, so that a full disk is an error and not a signal.
    code.code == ErrorCode::DiskFull || code.extended_code == ffi::SQLITE_IOERR_SHMSIZE
}

fn is_busy(code: ffi::Error) -> bool {
    matches!(code.code, ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::DiskFull(source) => Self::DiskFull { source: Box::new(source) },
            Failure::Busy(source) => Self::Busy { source: Box::new(source) },
            Failure::Failed { doing, source } => Self::Failed { doing, source: Box::new(source) },
            Failure::Unclear(source) => Self::Unclear { source: Box::new(source) },
        }
    }
}

/// Why one request of a transaction was turned down; the others go on.
#[derive(Debug)]
pub(super) enum Refused {
    Scarce(Scarcity),
    KeyReused { key: String },
    Exists { id: SandboxId },
    Conflict { current: Version },
    Missing,
    PoolFull,
    NotPooled,
    NeverFits(Scarcity),
    PlaceExists { id: PlaceId },
    NotWaiting { place: PlaceId },
    Unfit { doing: &'static str, why: Unfit },
}

/// What the caller handed over cannot be stored.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unfit {
    #[error("the new execution {0} came without its command")]
    NoCommand(pinfold_lifecycle::ExecutionId),
    #[error("the id of the execution {0} was used before")]
    UsedExecution(pinfold_lifecycle::ExecutionId),
    #[error("the id of the token {0} was used before")]
    UsedToken(pinfold_lifecycle::TokenId),
    #[error("it cannot be written as text")]
    Text(#[source] serde_json::Error),
}

/// What one request came to nothing for.
#[derive(Debug)]
pub(super) enum WriteError {
    Refused(Refused),
    Sqlite(rusqlite::Error),
    Store(StoreError),
}

impl From<rusqlite::Error> for WriteError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<Refused> for WriteError {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl From<WriteError> for StoreError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Store(error) => error,
            WriteError::Sqlite(error) => Failure::of("write", error).into(),
            WriteError::Refused(Refused::Unfit { doing, why }) => {
                Self::Failed { doing, source: Box::new(why) }
            }
            WriteError::Refused(refused) => {
                Self::Failed { doing: "write", source: format!("{refused:?}").into() }
            }
        }
    }
}

impl From<WriteError> for CreateError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Refused(Refused::Scarce(scarcity)) => Self::Scarce(scarcity),
            WriteError::Refused(Refused::KeyReused { key }) => Self::KeyReused { key },
            WriteError::Refused(Refused::Exists { id }) => Self::Exists { id },
            WriteError::Refused(Refused::NotWaiting { place }) => Self::NotWaiting { place },
            other => Self::Store(other.into()),
        }
    }
}

impl From<WriteError> for CommitError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Refused(Refused::Conflict { current }) => Self::Conflict { current },
            WriteError::Refused(Refused::Missing) => Self::Missing,
            other => Self::Store(other.into()),
        }
    }
}

impl From<WriteError> for FillError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Refused(Refused::PoolFull) => Self::Full,
            WriteError::Refused(Refused::Scarce(scarcity)) => Self::Scarce(scarcity),
            other => Self::Store(other.into()),
        }
    }
}

impl From<WriteError> for ClaimError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Refused(Refused::Conflict { .. } | Refused::Missing | Refused::NotPooled) => {
                Self::Taken
            }
            WriteError::Refused(Refused::Scarce(scarcity)) => Self::Scarce(scarcity),
            WriteError::Refused(Refused::NotWaiting { place }) => Self::NotWaiting { place },
            WriteError::Refused(Refused::KeyReused { key }) => Self::KeyReused { key },
            other => Self::Store(other.into()),
        }
    }
}
