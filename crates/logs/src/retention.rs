//! What is old enough is deleted, wherever it lies. Records have their own retention and know nothing of this one.

use std::collections::BTreeMap;
use std::io;

use futures_util::StreamExt;
use object_store::ObjectStore;
use object_store::path::Path;
use pinfold_lifecycle::{SandboxId, Timestamp};
use pinfold_store::StoreError;

use crate::archive::{ArchiveError, all_logs, is_manifest};
use crate::logs::Logs;
use crate::mover::hold;
use crate::objects::Objects;

/// How long things are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    pub logs_ms: u64,
    pub artifacts_ms: u64,
}

impl Default for Keep {
    fn default() -> Self {
        Self { logs_ms: 7 * DAY_MS, artifacts_ms: 7 * DAY_MS }
    }
}

const DAY_MS: u64 = 24 * 3_600_000;

#[derive(Debug, thiserror::Error)]
pub enum RetentionError {
    #[error("could not list what is in the object store")]
    List { source: object_store::Error },
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error("could not look at or remove output on this host")]
    Files { source: io::Error },
    #[error("could not find out whose body is gone")]
    Store(#[from] StoreError),
}

/// Whether what is past its time goes, or it is only told what would.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    Foretell,
    Remove,
}

/// What went, or would go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gone {
    pub count: usize,
    pub bytes: u64,
}

/// The objects of one log or run.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) objects: Vec<Listed>,
}

#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) path: Path,
    pub(crate) at: Timestamp,
    pub(crate) bytes: u64,
}

/// One that cannot be removed keeps nobody from removing the others.
#[derive(Default)]
pub(crate) struct Expired {
    gone: Gone,
    first_failure: Option<RetentionError>,
}

impl Expired {
    pub(crate) fn take_in(&mut self, outcome: Result<Gone, RetentionError>) {
        match outcome {
            Ok(gone) => {
                self.gone.count += gone.count;
                self.gone.bytes += gone.bytes;
            }
            Err(error) => drop(self.first_failure.get_or_insert(error)),
        }
    }

    pub(crate) fn told(self) -> Result<Gone, RetentionError> {
        self.first_failure.map_or(Ok(self.gone), Err)
    }
}

impl Logs {
    /// Deletes logs that were moved, or last written, so long ago, and says how many. What is not proven gone stays.
    pub async fn expire(&self, keep: Keep, now: Timestamp) -> Result<usize, RetentionError> {
        let before = Timestamp(now.0.saturating_sub_unsigned(keep.logs_ms));
        let files = |source| RetentionError::Files { source };
        // In this order: what was marked before is listed, or is not there any more.
        let marked = self.places.moved().map_err(files)?;
        let groups = groups(&self.objects, &all_logs(&self.objects)).await?;
        let mut expired = Expired::default();
        for (name, group) in &groups {
            if let Ok(sandbox) = name.parse() {
                expired.take_in(self.expire_moved(sandbox, group, before, now, Expiry::Remove).await);
            }
        }
        for sandbox in marked {
            if !groups.contains_key(&sandbox.to_string()) {
                self.places.forget(sandbox).map_err(files)?;
            }
        }
        for sandbox in self.places.here().map_err(files)? {
            expired.take_in(self.expire_here(sandbox, before, Expiry::Remove).await);
        }
        Ok(expired.told()?.count)
    }

    /// Without its manifest it is no log any more, so that goes first.
    pub(crate) async fn expire_moved(
        &self,
        sandbox: SandboxId,
        group: &Group,
        before: Timestamp,
        now: Timestamp,
        how: Expiry,
    ) -> Result<Gone, RetentionError> {
        let manifest = group.objects.iter().find(|object| is_manifest(&object.path));
        let last = group.objects.iter().map(|object| object.at).max().unwrap_or_default();
        // Somebody may be about to write the manifest.
        let since = manifest.map_or((last, before.max(day_before(now))), |manifest| (manifest.at, before));
        if since.0 >= since.1 {
            return Ok(Gone::default());
        }
        if how == Expiry::Remove {
            let archive = self.archive(sandbox);
            for object in manifest.into_iter().chain(&group.objects) {
                archive.delete(&object.path).await?;
            }
            self.places.forget(sandbox).map_err(|source| RetentionError::Files { source })?;
        }
        let bytes = group.objects.iter().map(|object| object.bytes).sum();
        Ok(Gone { count: usize::from(manifest.is_some()), bytes })
    }

    /// What could not be moved for so long.
    pub(crate) async fn expire_here(
        &self,
        sandbox: SandboxId,
        before: Timestamp,
        how: Expiry,
    ) -> Result<Gone, RetentionError> {
        let last = match self.places.last_changed(sandbox) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Gone::default()),
            other => other.map_err(|source| RetentionError::Files { source })?,
        };
        if last >= before || !self.is_gone(sandbox).await? {
            return Ok(Gone::default());
        }
        let gone = match hold(&self.places.outputs_of(sandbox)) {
            Ok(Some(_held)) => self.take_outputs(sandbox, how),
            Ok(None) => Ok(Gone::default()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Gone::default()),
            Err(error) => Err(error),
        };
        gone.map_err(|source| RetentionError::Files { source })
    }

    fn take_outputs(&self, sandbox: SandboxId, how: Expiry) -> io::Result<Gone> {
        let bytes = self.places.bytes_of(sandbox)?;
        if how == Expiry::Remove {
            self.places.remove_outputs(sandbox)?;
        }
        Ok(Gone { count: 1, bytes })
    }
}

pub(crate) fn day_before(now: Timestamp) -> Timestamp {
    Timestamp(now.0.saturating_sub_unsigned(DAY_MS))
}

/// All objects below a place, by the first part of their names there.
pub(crate) async fn groups(
    objects: &Objects,
    below: &Path,
) -> Result<BTreeMap<String, Group>, RetentionError> {
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    let mut listed = objects.store.list(Some(below));
    while let Some(found) = listed.next().await {
        let found = found.map_err(|source| RetentionError::List { source })?;
        let mut parts = found.location.prefix_match(below).into_iter().flatten();
        let Some(name) = parts.next().map(|part| part.as_ref().to_owned()) else { continue };
        drop(parts);
        let at = Timestamp(found.last_modified.timestamp_millis());
        let listed = Listed { path: found.location, at, bytes: found.size };
        groups.entry(name).or_default().objects.push(listed);
    }
    Ok(groups)
}
