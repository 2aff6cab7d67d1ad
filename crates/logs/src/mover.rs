//! Moves the log of a sandbox that is proven gone into the object store. The steps are: write segments, write the manifest,
//! read all of it back, write the marker file that readers check, remove the provider's output. A crash between any two steps
//! leaves the log readable, and the next attempt continues.

use std::io;

use futures_util::{StreamExt, stream};
use pinfold_lifecycle::SandboxId;
use pinfold_provider::{LockOutcome, LockedOutput};
use pinfold_store::StoreError;

use crate::archive::{ArchiveError, Manifest, SEGMENT};
use crate::logs::{Logs, ReadError};
use crate::page_limit::RemainingLimit;
use crate::tail::LogTail;

/// Each move waits for several fsyncs, which the disk combines. One move at a time would not keep up with short-lived
/// sandboxes.
const CONCURRENT_MOVES: usize = 8;

/// The outcome of moving one log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MoveOutcome {
    /// It is in the object store, with so many new entries, and no longer on this host.
    Moved { entries: u64 },
    /// Its instance is not proven gone.
    NotGone,
    /// Another process is moving it.
    Busy,
    /// It has no output on this host, or no history.
    Nothing,
}

/// The result of moving all logs on this host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MoveSummary {
    pub moved: Vec<SandboxId>,
    /// Logs that could not be moved, each with a log line. They stay readable, and the next call tries again.
    pub failed: Vec<SandboxId>,
}

#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    #[error("could not read the log that is to be moved")]
    Read(#[from] ReadError),
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error("could not list the output on this host")]
    List { source: io::Error },
    #[error("could not {action} the output of {sandbox}")]
    Output { action: &'static str, sandbox: SandboxId, source: io::Error },
    #[error("could not find out whether the instance is gone")]
    Store(#[from] StoreError),
}

impl Logs {
    /// Moves the logs of all sandboxes with output on this host that are proven gone. The server calls it about once a
    /// minute; any number of processes may call it at once.
    pub async fn move_all(&self) -> Result<MoveSummary, MoveError> {
        let here = self.output.sandboxes().map_err(|source| MoveError::List { source })?;
        let mut summary = MoveSummary::default();
        let one = |sandbox| async move { (sandbox, self.move_one(sandbox).await) };
        let mut moves = stream::iter(here).map(one).buffered(CONCURRENT_MOVES);
        while let Some((sandbox, moved)) = moves.next().await {
            match moved {
                Ok(MoveOutcome::Moved { .. }) => summary.moved.push(sandbox),
                Ok(MoveOutcome::NotGone | MoveOutcome::Busy | MoveOutcome::Nothing) => {}
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(sandbox_id = %sandbox, error, "could not move the log to the object store, retrying later");
                    summary.failed.push(sandbox);
                }
            }
        }
        Ok(summary)
    }

    pub async fn move_one(&self, sandbox: SandboxId) -> Result<MoveOutcome, MoveError> {
        if !self.is_gone(sandbox).await? {
            return Ok(MoveOutcome::NotGone);
        }
        let lock = self.output.lock(sandbox);
        let locked = match lock.map_err(|source| MoveError::Output { action: "lock", sandbox, source })? {
            LockOutcome::Locked(locked) => locked,
            LockOutcome::Busy => return Ok(MoveOutcome::Busy),
            LockOutcome::Nothing => return Ok(MoveOutcome::Nothing),
        };
        let Some((manifest, entries)) = self.write_segments(sandbox).await? else {
            return Ok(MoveOutcome::Nothing);
        };
        let archive = self.archive(sandbox);
        if entries > 0 {
            archive.put_manifest(&manifest).await?;
        }
        archive.verify(&manifest).await?;
        self.switch_to_archive(sandbox, locked).await?;
        Ok(MoveOutcome::Moved { entries })
    }

    /// Writes the marker file, which sends readers to the archive, and removes the output here. On a blocking thread,
    /// because of the fsyncs.
    async fn switch_to_archive(
        &self,
        sandbox: SandboxId,
        mut locked: Box<dyn LockedOutput>,
    ) -> Result<(), MoveError> {
        let moved = self.moved.clone();
        let switching = tokio::task::spawn_blocking(move || {
            moved.mark(sandbox).map_err(|source| ("mark as moved", source))?;
            locked.remove().map_err(|source| ("remove", source))
        });
        let switched = switching.await.map_err(|source| ReadError::Interrupted { source })?;
        switched.map_err(|(action, source)| MoveError::Output { action, sandbox, source })
    }

    /// Writes all that is not in the object store yet. None: there is nothing to store.
    async fn write_segments(&self, sandbox: SandboxId) -> Result<Option<(Manifest, u64)>, MoveError> {
        let archive = self.archive(sandbox);
        let before = archive.manifest().await?;
        let was_there = before.is_some();
        let mut manifest = before.unwrap_or_default();
        let mut tail = LogTail::after(sandbox, archive.end(&manifest)?, Some(self.output.clone()));
        let mut entries = 0;
        loop {
            let left = RemainingLimit::of(SEGMENT);
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
}
