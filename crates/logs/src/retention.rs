//! Deletes logs and artifacts past their retention, on this host and in the object store. Records of the store have a
//! retention of their own.

use std::collections::BTreeMap;
use std::io;

use futures_util::StreamExt;
use object_store::ObjectStore;
use object_store::path::Path;
use pinfold_lifecycle::{SandboxId, Timestamp};
use pinfold_provider::{LockOutcome, StoredOutput};
use pinfold_store::StoreError;

use crate::archive::{ArchiveError, all_logs, is_manifest};
use crate::logs::Logs;
use crate::object_storage::ObjectStorage;

/// How long logs and artifacts are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionPeriods {
    pub logs_ms: u64,
    pub artifacts_ms: u64,
}

impl Default for RetentionPeriods {
    fn default() -> Self {
        Self { logs_ms: 7 * DAY_MS, artifacts_ms: 7 * DAY_MS }
    }
}

const DAY_MS: u64 = 24 * 3_600_000;

#[derive(Debug, thiserror::Error)]
pub enum RetentionError {
    #[error("could not list the object store")]
    List { source: object_store::Error },
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error("could not read or remove output on this host")]
    Files { source: io::Error },
    #[error("could not find out whether the instance is gone")]
    Store(#[from] StoreError),
}

/// Whether to delete, or only to report what would be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemovalMode {
    DryRun,
    Remove,
}

/// What was deleted, or would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Removed {
    pub count: usize,
    pub bytes: u64,
}

/// The objects of one log or run.
#[derive(Debug, Default)]
pub(crate) struct ObjectGroup {
    pub(crate) objects: Vec<ListedObject>,
}

#[derive(Debug)]
pub(crate) struct ListedObject {
    pub(crate) path: Path,
    pub(crate) at: Timestamp,
    pub(crate) bytes: u64,
}

/// Adds up removals. A failed one does not stop the others; the first failure is reported at the end.
#[derive(Default)]
pub(crate) struct RemovalTally {
    removed: Removed,
    first_failure: Option<RetentionError>,
}

impl RemovalTally {
    pub(crate) fn add(&mut self, outcome: Result<Removed, RetentionError>) {
        match outcome {
            Ok(removed) => {
                self.removed.count += removed.count;
                self.removed.bytes += removed.bytes;
            }
            Err(error) => drop(self.first_failure.get_or_insert(error)),
        }
    }

    pub(crate) fn finish(self) -> Result<Removed, RetentionError> {
        self.first_failure.map_or(Ok(self.removed), Err)
    }
}

impl Logs {
    /// Deletes logs that were moved or last written longer ago than the retention; returns how many. Logs of sandboxes that
    /// are not proven gone stay.
    pub async fn expire(&self, keep: RetentionPeriods, now: Timestamp) -> Result<usize, RetentionError> {
        let before = Timestamp(now.0.saturating_sub_unsigned(keep.logs_ms));
        let files = |source| RetentionError::Files { source };
        // Markers are listed first: a log that was marked before is in the later listing, or is deleted.
        let marked = self.moved.list().map_err(files)?;
        let groups = groups(&self.objects, &all_logs(&self.objects)).await?;
        let mut expired = RemovalTally::default();
        for (name, group) in &groups {
            if let Ok(sandbox) = name.parse() {
                expired.add(self.expire_moved(sandbox, group, before, now, RemovalMode::Remove).await);
            }
        }
        for sandbox in marked {
            if !groups.contains_key(&sandbox.to_string()) {
                self.moved.remove_marker(sandbox).map_err(files)?;
            }
        }
        for sandbox in self.output.sandboxes().map_err(files)? {
            expired.add(self.expire_here(sandbox, before, RemovalMode::Remove).await);
        }
        Ok(expired.finish()?.count)
    }

    /// Deletes the manifest first: without it the segments are no log.
    pub(crate) async fn expire_moved(
        &self,
        sandbox: SandboxId,
        group: &ObjectGroup,
        before: Timestamp,
        now: Timestamp,
        mode: RemovalMode,
    ) -> Result<Removed, RetentionError> {
        let manifest = group.objects.iter().find(|object| is_manifest(&object.path));
        let last = group.objects.iter().map(|object| object.at).max().unwrap_or_default();
        // Without a manifest, another process may be about to write it.
        let since = manifest.map_or((last, before.max(day_before(now))), |manifest| (manifest.at, before));
        if since.0 >= since.1 {
            return Ok(Removed::default());
        }
        if mode == RemovalMode::Remove {
            let archive = self.archive(sandbox);
            for object in manifest.into_iter().chain(&group.objects) {
                archive.delete(&object.path).await?;
            }
            self.moved.remove_marker(sandbox).map_err(|source| RetentionError::Files { source })?;
        }
        let bytes = group.objects.iter().map(|object| object.bytes).sum();
        Ok(Removed { count: usize::from(manifest.is_some()), bytes })
    }

    /// Deletes output that could not be moved for longer than the retention.
    pub(crate) async fn expire_here(
        &self,
        sandbox: SandboxId,
        before: Timestamp,
        mode: RemovalMode,
    ) -> Result<Removed, RetentionError> {
        let files = |source| RetentionError::Files { source };
        let Some(StoredOutput { bytes, last_changed }) = self.output.stored(sandbox).map_err(files)? else {
            return Ok(Removed::default());
        };
        if last_changed >= before || !self.is_gone(sandbox).await? {
            return Ok(Removed::default());
        }
        match self.output.lock(sandbox).map_err(files)? {
            LockOutcome::Locked(mut locked) => {
                if mode == RemovalMode::Remove {
                    locked.remove().map_err(files)?;
                }
                Ok(Removed { count: 1, bytes })
            }
            LockOutcome::Busy | LockOutcome::Nothing => Ok(Removed::default()),
        }
    }
}

pub(crate) fn day_before(now: Timestamp) -> Timestamp {
    Timestamp(now.0.saturating_sub_unsigned(DAY_MS))
}

/// All objects below a path, grouped by the first part of their names there.
pub(crate) async fn groups(
    objects: &ObjectStorage,
    below: &Path,
) -> Result<BTreeMap<String, ObjectGroup>, RetentionError> {
    let mut groups: BTreeMap<String, ObjectGroup> = BTreeMap::new();
    let mut listed = objects.store.list(Some(below));
    while let Some(found) = listed.next().await {
        let found = found.map_err(|source| RetentionError::List { source })?;
        let mut parts = found.location.prefix_match(below).into_iter().flatten();
        let Some(name) = parts.next().map(|part| part.as_ref().to_owned()) else { continue };
        drop(parts);
        let at = Timestamp(found.last_modified.timestamp_millis());
        let listed = ListedObject { path: found.location, at, bytes: found.size };
        groups.entry(name).or_default().objects.push(listed);
    }
    Ok(groups)
}
