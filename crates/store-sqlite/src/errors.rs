//! Maps SQLite's errors and refused requests to the errors of the store.

use std::fmt;
use std::sync::Arc;

use pinfold_lifecycle::{AdmissionRefusal, QueueId, SandboxId};
use rusqlite::{ErrorCode, ffi};

use pinfold_store::{ClaimError, CommitError, CreateError, FillError, StoreError, Version};

/// An error that every request of a batch is answered with.
#[derive(Debug, Clone)]
pub(crate) struct SharedError(Arc<dyn std::error::Error + Send + Sync>);

impl fmt::Display for SharedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for SharedError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// Why a transaction failed.
#[derive(Debug, Clone)]
pub(crate) enum TransactionError {
    DiskFull(SharedError),
    Busy(SharedError, Option<String>),
    /// The files of the store must not be written.
    Unwritable(String),
    /// Nothing was written.
    Failed {
        action: &'static str,
        source: SharedError,
    },
    /// It may or may not have been written.
    OutcomeUnknown(SharedError),
}

impl TransactionError {
    pub(crate) fn of(action: &'static str, error: rusqlite::Error) -> Self {
        let code = error.sqlite_error().copied();
        let source = SharedError(Arc::new(error));
        match code {
            Some(code) if is_disk_full(code) => Self::DiskFull(source),
            Some(code) if is_busy(code) => Self::Busy(source, None),
            Some(code) if is_unwritable(code) => Self::Unwritable(source.to_string()),
            Some(_) | None => Self::Failed { action, source },
        }
    }

    /// A newer program has migrated the store since this one opened it, and this one does not know the new columns.
    pub(crate) fn newer_schema() -> Self {
        let why = "a newer program has changed the schema; restart this one in its new version";
        Self::Failed { action: "write", source: SharedError(Arc::from(text_error(why))) }
    }

    /// The same error with the process that holds the lock, if it is about the lock.
    pub(crate) fn with_holder(self, find: impl FnOnce() -> Option<String>) -> Self {
        match self {
            Self::Busy(source, None) => Self::Busy(source, find()),
            other => other,
        }
    }

    /// The failure of a commit. Unless SQLite says that nothing was written, the outcome is unknown.
    pub(crate) fn of_commit(error: rusqlite::Error) -> Self {
        match Self::of("commit", error) {
            Self::Failed { source, .. } | Self::OutcomeUnknown(source) => Self::OutcomeUnknown(source),
            Self::Unwritable(why) => Self::OutcomeUnknown(SharedError(Arc::from(text_error(&why)))),
            known @ (Self::DiskFull(_) | Self::Busy(..)) => known,
        }
    }

    /// The disk still fails after an earlier commit, so that the present write has not begun.
    pub(crate) fn not_begun(self) -> Self {
        match self {
            Self::OutcomeUnknown(source) | Self::Failed { source, .. } => {
                Self::Unwritable(source.to_string())
            }
            known @ (Self::DiskFull(_) | Self::Busy(..) | Self::Unwritable(_)) => known,
        }
    }

    /// The outcome was unknown, and a check has shown that nothing was written.
    pub(crate) fn not_written(self) -> Self {
        match self {
            Self::OutcomeUnknown(source) => Self::Failed { action: "sync a commit", source },
            known @ (Self::DiskFull(_) | Self::Busy(..) | Self::Unwritable(_) | Self::Failed { .. }) => known,
        }
    }
}

fn text_error(text: &str) -> Box<dyn std::error::Error + Send + Sync> {
    text.into()
}

fn is_disk_full(code: ffi::Error) -> bool {
    // SQLite allocates the WAL index ahead, so that a full disk is this error and not a signal.
    code.code == ErrorCode::DiskFull || code.extended_code == ffi::SQLITE_IOERR_SHMSIZE
}

/// The files are read-only, their content is damaged, or the disk refuses to write.
fn is_unwritable(code: ffi::Error) -> bool {
    matches!(code.code, ErrorCode::ReadOnly | ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
        || matches!(
            code.extended_code,
            ffi::SQLITE_IOERR_WRITE
                | ffi::SQLITE_IOERR_FSYNC
                | ffi::SQLITE_IOERR_DIR_FSYNC
                | ffi::SQLITE_IOERR_TRUNCATE
                | ffi::SQLITE_IOERR_SHMOPEN
                | ffi::SQLITE_IOERR_SHMMAP
        )
}

fn is_busy(code: ffi::Error) -> bool {
    matches!(code.code, ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
}

impl fmt::Display for TransactionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        StoreError::from(self.clone()).fmt(f)
    }
}

impl From<TransactionError> for StoreError {
    fn from(failure: TransactionError) -> Self {
        match failure {
            TransactionError::DiskFull(source) => Self::DiskFull { source: Box::new(source) },
            TransactionError::Busy(source, holder) => Self::Busy { holder, source: Box::new(source) },
            TransactionError::Unwritable(why) => Self::Unwritable { why },
            TransactionError::Failed { action, source } => Self::Failed { action, source: Box::new(source) },
            TransactionError::OutcomeUnknown(source) => Self::OutcomeUnknown { source: Box::new(source) },
        }
    }
}

/// Why one request of a batch was refused; the others go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("there is no room: {0}")]
    AdmissionRefused(AdmissionRefusal),
    #[error("the idempotency key `{key}` was used for another request")]
    KeyReused { key: String },
    #[error("a sandbox with the id {id} exists already")]
    Exists { id: SandboxId },
    #[error("the sandbox {id} has the name `{name}`")]
    NameTaken { name: String, id: SandboxId },
    #[error("the row has version {} by now", current.0)]
    Conflict { current: Version },
    #[error("the sandbox is not in the store")]
    Missing,
    #[error("the pool of this shape is full")]
    PoolFull,
    #[error("the instance is not in the pool of this shape")]
    NotPooled,
    #[error("it exceeds the limits even on an empty host: {0}")]
    NeverFits(AdmissionRefusal),
    #[error("the queue id {id} was used before")]
    QueueIdExists { id: QueueId },
    #[error("{id} is no longer in the queue")]
    NotQueued { id: QueueId },
    #[error("could not {action}: {reason}")]
    Invalid { action: &'static str, reason: InvalidRequest },
}

/// A request that cannot be stored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InvalidRequest {
    #[error("the new execution {0} came without its command")]
    NoCommand(pinfold_lifecycle::ExecutionId),
    #[error("the id of the execution {0} was used before")]
    UsedExecution(pinfold_lifecycle::ExecutionId),
    #[error("the id of the token {0} was used before")]
    UsedToken(pinfold_lifecycle::TokenId),
    #[error("it cannot be written as JSON")]
    Text(#[source] serde_json::Error),
}

/// Why one request was not carried out.
#[derive(Debug)]
pub(crate) enum WriteError {
    Refused(Refusal),
    Sqlite(rusqlite::Error),
    Store(StoreError),
}

impl From<rusqlite::Error> for WriteError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<Refusal> for WriteError {
    fn from(refused: Refusal) -> Self {
        Self::Refused(refused)
    }
}

impl From<WriteError> for StoreError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Store(error) => error,
            WriteError::Sqlite(error) => TransactionError::of("write", error).into(),
            WriteError::Refused(Refusal::Invalid { action, reason }) => {
                Self::Failed { action, source: Box::new(reason) }
            }
            WriteError::Refused(refused) => {
                Self::Failed { action: "write", source: refused.to_string().into() }
            }
        }
    }
}

impl From<WriteError> for CreateError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Refused(Refusal::AdmissionRefused(scarcity)) => Self::AdmissionRefused(scarcity),
            WriteError::Refused(Refusal::KeyReused { key }) => Self::KeyReused { key },
            WriteError::Refused(Refusal::Exists { id }) => Self::Exists { id },
            WriteError::Refused(Refusal::NameTaken { name, id }) => Self::NameTaken { name, id },
            WriteError::Refused(Refusal::NotQueued { id }) => Self::NotQueued { id },
            other => Self::Store(other.into()),
        }
    }
}

impl From<WriteError> for CommitError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Refused(Refusal::Conflict { current }) => Self::Conflict { current },
            WriteError::Refused(Refusal::Missing) => Self::Missing,
            other => Self::Store(other.into()),
        }
    }
}

impl From<WriteError> for FillError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Refused(Refusal::PoolFull) => Self::Full,
            WriteError::Refused(Refusal::AdmissionRefused(scarcity)) => Self::AdmissionRefused(scarcity),
            other => Self::Store(other.into()),
        }
    }
}

impl From<WriteError> for ClaimError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Refused(Refusal::Conflict { .. } | Refusal::Missing | Refusal::NotPooled) => {
                Self::Taken
            }
            WriteError::Refused(Refusal::AdmissionRefused(scarcity)) => Self::AdmissionRefused(scarcity),
            WriteError::Refused(Refusal::NotQueued { id }) => Self::NotQueued { id },
            WriteError::Refused(Refusal::KeyReused { key }) => Self::KeyReused { key },
            WriteError::Refused(Refusal::NameTaken { name, id }) => Self::NameTaken { name, id },
            other => Self::Store(other.into()),
        }
    }
}
