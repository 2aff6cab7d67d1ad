//! Errors of the store, one enum per operation. Each text says what failed and what to do about it.

use std::path::PathBuf;

use pinfold_lifecycle::{AdmissionRefusal, QueueId, SandboxId};

use crate::Version;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// A read or a write failed. Nothing was written, except possibly with [`StoreError::OutcomeUnknown`].
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the disk that holds the store is full; free some space, nothing was lost")]
    DiskFull { source: Source },
    /// `holder` names the process that has the lock, where the kernel tells it.
    #[error("{} held the store's write lock for too long; try again, or end it if it hangs", holder.as_deref().unwrap_or("another process"))]
    Busy { holder: Option<String>, source: Source },
    /// The store's files cannot be written, or must not be: read-only, replaced or damaged.
    #[error("the store cannot be written: {why}")]
    Unwritable { why: String },
    /// Environment variables are stored encrypted, and the key is not there.
    #[error(
        "the key file `{}` {why}, and environment variables are encrypted with it; put the file back from a backup",
        path.display()
    )]
    KeyLost { path: PathBuf, why: String },
    #[error("could not {action} in the store")]
    Failed { action: &'static str, source: Source },
    /// The disk failed while a commit was being synced: the write may or may not have happened.
    #[error("the disk failed during a commit of the store, whose outcome is unknown; read the row again")]
    OutcomeUnknown { source: Source },
    #[error("the store is closed")]
    Closed,
}

/// Why a sandbox was not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error("there is no room for another sandbox")]
    AdmissionRefused(#[source] AdmissionRefusal),
    #[error("the idempotency key `{key}` was used for another request; use a new one")]
    KeyReused { key: String },
    #[error("a sandbox with the id {id} exists already")]
    Exists { id: SandboxId },
    #[error("the name `{name}` is taken by {id}; stop that sandbox, or choose another name")]
    NameTaken { name: String, id: SandboxId },
    #[error("{id} is no longer in the queue")]
    NotQueued { id: QueueId },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a request was not put into the queue.
#[derive(Debug, thiserror::Error)]
pub enum EnqueueError {
    #[error("it exceeds the limits even on an empty host")]
    NeverFits(#[source] AdmissionRefusal),
    #[error("the queue id {id} was used before")]
    Exists { id: QueueId },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why the next state of a sandbox was not written.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    #[error("another writer has changed the sandbox; load it again")]
    Conflict { current: Version },
    #[error("the sandbox is not in the store")]
    Missing,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why no instance was added to the pool.
#[derive(Debug, thiserror::Error)]
pub enum FillError {
    #[error("the pool of this shape is full")]
    Full,
    #[error("there is no room for another instance in the pool")]
    AdmissionRefused(#[source] AdmissionRefusal),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why an instance of the pool was not given out.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    #[error("another writer has claimed or changed the instance; try another one")]
    Taken,
    #[error("there is no room for another sandbox")]
    AdmissionRefused(#[source] AdmissionRefusal),
    #[error("{id} is no longer in the queue")]
    NotQueued { id: QueueId },
    #[error("the idempotency key `{key}` was used for another request; use a new one")]
    KeyReused { key: String },
    #[error("the name `{name}` is taken by {id}; stop that sandbox, or choose another name")]
    NameTaken { name: String, id: SandboxId },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "the store `{}` has schema {found} and this program knows {known}; use the newer program that wrote it",
        path.display()
    )]
    NewerSchema { path: PathBuf, found: i64, known: i64 },
    #[error("the store `{}` was changed by another program: migration {version} has another checksum", path.display())]
    ForeignMigration { path: PathBuf, version: i64 },
    #[error("the store `{}` is damaged; restore it from a backup, or move it away to start anew", path.display())]
    Damaged { path: PathBuf, source: Source },
    #[error("the directory `{}` cannot be written; give this user the right to, or choose another", path.display())]
    ReadOnly { path: PathBuf, source: Source },
    #[error("the disk that holds `{}` is full; free some space", path.display())]
    DiskFull { path: PathBuf, source: Source },
    #[error("the filesystem of `{}` has no file locks; choose a directory on a local one", path.display())]
    NoLocks { path: PathBuf, source: Source },
    /// A file beside the store says that there was one, and it is gone.
    #[error(
        "the store `{}` is gone, and `{}` says that there was one; put it back from a backup, or remove that file to \
         begin an empty store",
        path.display(), marker.display()
    )]
    Gone { path: PathBuf, marker: PathBuf },
    #[error(
        "the store `{}` is not the one that `{}` names; put that one back, or remove that file to go on with this one",
        path.display(), marker.display()
    )]
    Other { path: PathBuf, marker: PathBuf },
    #[error("could not open the store `{}`", path.display())]
    Failed { path: PathBuf, source: Source },
}
