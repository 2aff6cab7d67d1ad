//! What can go wrong with a store. Each text says what to do about it.

use std::path::PathBuf;

use pinfold_lifecycle::{PlaceId, SandboxId, Scarcity};

use crate::Version;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Reading or writing failed. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the disk that holds the store is full; free some space, nothing was lost")]
    DiskFull { source: Source },
    #[error("another process held the store's lock for too long; try again")]
    Busy { source: Source },
    #[error("could not {doing} in the store")]
    Failed { doing: &'static str, source: Source },
    /// A write may or may not have happened: the disk failed while it was being made durable.
    #[error("the disk failed while the store was made durable; read again to see what holds")]
    Unclear { source: Source },
    #[error("the store is closed")]
    Closed,
}

#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error("there is no room for another sandbox")]
    Scarce(#[source] Scarcity),
    #[error("the idempotency key `{key}` was used for another request; use a new one")]
    KeyReused { key: String },
    #[error("a sandbox with the id {id} exists already")]
    Exists { id: SandboxId },
    #[error("{place} does not wait in the queue any more")]
    NotWaiting { place: PlaceId },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why nobody was put into the queue.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    #[error("there would be no room for it even if nobody else were there")]
    NeverFits(#[source] Scarcity),
    #[error("the id {id} of a place in the queue was used before")]
    Exists { id: PlaceId },
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    #[error("somebody else has changed the sandbox; load it again")]
    Conflict { current: Version },
    #[error("the sandbox is not in the store")]
    Missing,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why no body was added to the pool.
#[derive(Debug, thiserror::Error)]
pub enum FillError {
    #[error("as many bodies of this shape wait as are wanted")]
    Full,
    #[error("there is no room for another body in the pool")]
    Scarce(#[source] Scarcity),
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    #[error("somebody else has taken or changed the body; try another")]
    Taken,
    #[error("there is no room for another sandbox")]
    Scarce(#[source] Scarcity),
    #[error("{place} does not wait in the queue any more")]
    NotWaiting { place: PlaceId },
    #[error("the idempotency key `{key}` was used for another request; use a new one")]
    KeyReused { key: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

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
    #[error("could not open the store `{}`", path.display())]
    Failed { path: PathBuf, source: Source },
}
