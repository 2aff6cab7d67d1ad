//! Moves the log of a sandbox that is proven gone into the object store. A crash between any two steps leaves it
//! readable, and whoever tries again goes on: segments, manifest, all of it read back, the mark that readers go by,
//! and only then the keepers' files are removed.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use futures_util::{StreamExt, stream};
use pinfold_lifecycle::SandboxId;
use pinfold_store::StoreError;
use rustix::fs::FlockOperation;

use crate::archive::{ArchiveError, Manifest, SEGMENT};
use crate::limit::Left;
use crate::logs::{Logs, ReadError};
use crate::tail::Tail;

/// Each waits for the disk several times, and the disk makes one wait of many: one after the other they would not keep up
/// with sandboxes that come and go quickly.
const SIDE_BY_SIDE: usize = 8;

/// What became of one log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// It is in the object store, with so many new entries, and not here any more.
    Moved { entries: u64 },
    /// Its body is not proven gone.
    NotGone,
    /// Somebody else is moving it.
    Busy,
    /// No output of it is on this host, or nothing is recorded of it.
    Nothing,
}

/// What one look at all logs on this host came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    pub moved: Vec<SandboxId>,
    /// Those that could not be moved, each logged with its reason. They stay readable and are tried again.
    pub failed: Vec<SandboxId>,
}

#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    #[error("could not read the log that is to be moved")]
    Read(#[from] ReadError),
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error("could not {doing} `{}`", path.display())]
    Files { doing: &'static str, path: PathBuf, source: io::Error },
    #[error("could not find out whose body is gone")]
    Store(#[from] StoreError),
}

impl Logs {
    /// Moves the logs of all sandboxes with output on this host that are proven gone. For whoever tidies up, about
    /// once a minute; any number of processes may do it at once.
    pub async fn move_all(&self) -> Result<Swept, MoveError> {
        let listed = self.places.here();
        let here = listed.map_err(|source| self.files("list", PathBuf::from("logs"), source))?;
        let mut swept = Swept::default();
        let one = |sandbox| async move { (sandbox, self.move_one(sandbox).await) };
        let mut moves = stream::iter(here).map(one).buffered(SIDE_BY_SIDE);
        while let Some((sandbox, moved)) = moves.next().await {
            match moved {
                Ok(Moved::Moved { .. }) => swept.moved.push(sandbox),
                Ok(Moved::NotGone | Moved::Busy | Moved::Nothing) => {}
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(sandbox_id = %sandbox, error, "the log stays where it is for now");
                    swept.failed.push(sandbox);
                }
            }
        }
        Ok(swept)
    }

    pub async fn move_one(&self, sandbox: SandboxId) -> Result<Moved, MoveError> {
        if !self.is_gone(sandbox).await? {
            return Ok(Moved::NotGone);
        }
        let directory = self.places.outputs_of(sandbox);
        let held = match hold(&directory) {
            Ok(Some(held)) => held,
            Ok(None) => return Ok(Moved::Busy),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Moved::Nothing),
            Err(source) => return Err(self.files("lock", directory, source)),
        };
        let Some((manifest, entries)) = self.write_segments(sandbox, &directory).await? else {
            return Ok(Moved::Nothing);
        };
        let archive = self.archive(sandbox);
        if entries > 0 {
            archive.put_manifest(&manifest).await?;
        }
        archive.verify(&manifest).await?;
        self.leave(sandbox, held).await?;
        Ok(Moved::Moved { entries })
    }

    /// Readers go there from now on, and nothing is left here. Syncs take their time, and nobody else waits for them.
    async fn leave(&self, sandbox: SandboxId, held: File) -> Result<(), MoveError> {
        let places = self.places.clone();
        let leaving = tokio::task::spawn_blocking(move || {
            let marked = places.mark_moved(sandbox).map_err(|source| ("mark as moved", source));
            let left =
                marked.and_then(|()| places.remove_outputs(sandbox).map_err(|source| ("remove", source)));
            drop(held);
            left
        });
        let left = leaving.await.map_err(|_| ReadError::Interrupted)?;
        left.map_err(|(doing, source)| self.files(doing, self.places.outputs_of(sandbox), source))
    }

    /// All that is not in the object store yet. None: there is nothing to keep.
    async fn write_segments(
        &self,
        sandbox: SandboxId,
        directory: &std::path::Path,
    ) -> Result<Option<(Manifest, u64)>, MoveError> {
        let archive = self.archive(sandbox);
        let before = archive.manifest().await?;
        let was_there = before.is_some();
        let mut manifest = before.unwrap_or_default();
        let mut tail = Tail::after(sandbox, archive.end(&manifest)?, Some(directory.to_owned()));
        let mut entries = 0;
        loop {
            let left = Left::of(SEGMENT);
            let lines;
            (tail, lines) = tail.lines(self.store.as_ref(), left).await?;
            if lines.is_empty() {
                break;
            }
            entries += lines.len() as u64;
            let last = lines.iter().map(|line| line.at).max().unwrap_or_default();
            manifest.last_activity = manifest.last_activity.max(last);
            let segment = archive.put_segment(manifest.segments.len(), &lines, tail.cursor()).await?;
            manifest.segments.push(segment);
        }
        Ok((was_there || entries > 0).then_some((manifest, entries)))
    }

    pub(crate) fn files(&self, doing: &'static str, path: PathBuf, source: io::Error) -> MoveError {
        MoveError::Files { doing, path, source }
    }
}

/// Alone with a sandbox's output until this is dropped. None: somebody else is.
pub(crate) fn hold(directory: &std::path::Path) -> io::Result<Option<File>> {
    let file = File::open(directory)?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
