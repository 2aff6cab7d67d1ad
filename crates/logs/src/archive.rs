//! A log in the object store: segments of lines, and a manifest that lists them. The manifest is written last and
//! atomically, so a log is there with all of its segments or not at all. Segments that no manifest lists are garbage.

use futures_util::StreamExt;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use pinfold_lifecycle::{SandboxId, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::cursor::{Cursor, CursorError};
use crate::entry::LogEntry;
use crate::log_line::LogLine;
use crate::object_storage::ObjectStorage;
use crate::page_limit::{PageLimit, RemainingLimit};

/// A segment is complete when it has so many bytes of output or so many lines. A page reads one or two segments.
pub(crate) const SEGMENT: PageLimit = PageLimit { entries: 4_096, bytes: 1 << 20 };
/// The largest object that is read. JSON makes a control character six times as long.
const MAX_OBJECT_BYTES: u64 = 16 << 20;
const MANIFEST: &str = "manifest.json";

#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("could not {action} `{path}` in the object store")]
    Store { action: &'static str, path: Path, source: object_store::Error },
    #[error("`{path}` is damaged: {why}")]
    Damaged { path: Path, why: &'static str },
    #[error("`{path}` cannot be parsed")]
    Unreadable { path: Path, source: serde_json::Error },
    #[error("`{path}` has an invalid position")]
    Position { path: Path, source: CursorError },
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) segments: Vec<Segment>,
    pub(crate) last_activity: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Segment {
    name: String,
    bytes: u64,
    sha256: String,
    entries: u64,
    /// The position of a reader that has read this segment and all before it.
    end: String,
}

/// One log in the object store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Archive<'a> {
    pub(crate) objects: &'a ObjectStorage,
    pub(crate) sandbox: SandboxId,
}

/// The prefix of all logs, with one directory per sandbox.
pub(crate) fn all_logs(objects: &ObjectStorage) -> Path {
    objects.path(&["logs"])
}

/// Whether this object is the manifest of a log.
pub(crate) fn is_manifest(path: &Path) -> bool {
    path.filename() == Some(MANIFEST)
}

impl Archive<'_> {
    pub(crate) fn path(self, name: &str) -> Path {
        self.objects.path(&["logs", &self.sandbox.to_string(), name])
    }

    pub(crate) fn manifest_path(self) -> Path {
        self.path(MANIFEST)
    }

    pub(crate) async fn manifest(self) -> Result<Option<Manifest>, ArchiveError> {
        let path = self.manifest_path();
        let Some(bytes) = self.get(&path).await? else { return Ok(None) };
        let unreadable = |source| ArchiveError::Unreadable { path: path.clone(), source };
        serde_json::from_slice(&bytes).map(Some).map_err(unreadable)
    }

    /// Reads a segment and checks its digest.
    async fn verified(self, segment: &Segment) -> Result<Vec<u8>, ArchiveError> {
        let path = self.path(&segment.name);
        let Some(bytes) = self.get(&path).await? else {
            return Err(ArchiveError::Damaged { path, why: "it is not there" });
        };
        if digest(&bytes) != segment.sha256 {
            return Err(ArchiveError::Damaged { path, why: "it is not what was written" });
        }
        Ok(bytes)
    }

    /// The position after the last segment.
    pub(crate) fn end(self, manifest: &Manifest) -> Result<Cursor, ArchiveError> {
        manifest.segments.last().map_or(Ok(Cursor::default()), |last| self.end_of(last))
    }

    fn end_of(self, segment: &Segment) -> Result<Cursor, ArchiveError> {
        let invalid = |source| ArchiveError::Position { path: self.manifest_path(), source };
        segment.end.parse().map_err(invalid)
    }

    /// The entries that the reader has not seen, up to the limit.
    pub(crate) async fn read(
        self,
        manifest: &Manifest,
        reader: &mut Cursor,
        left: &mut RemainingLimit,
    ) -> Result<Vec<LogEntry>, ArchiveError> {
        let mut entries = Vec::new();
        for segment in &manifest.segments {
            if left.is_used_up() {
                break;
            }
            if reader.covers(&self.end_of(segment)?) {
                continue;
            }
            let bytes = self.verified(segment).await?;
            for text in bytes.split(|byte| *byte == b'\n').filter(|text| !text.is_empty()) {
                if left.is_used_up() {
                    break;
                }
                let unreadable = |source| ArchiveError::Unreadable { path: self.path(&segment.name), source };
                let line: LogLine = serde_json::from_slice(text).map_err(unreadable)?;
                if !reader.has_seen(&line) {
                    left.take(line.weight());
                    entries.push(LogEntry::of(line, reader));
                }
            }
        }
        Ok(entries)
    }

    /// Writes a segment. It becomes part of the log with the manifest.
    pub(crate) async fn put_segment(
        self,
        number: usize,
        lines: &[LogLine],
        end: &Cursor,
    ) -> Result<Segment, ArchiveError> {
        let name = format!("{number:06}.jsonl");
        let path = self.path(&name);
        let mut bytes = Vec::new();
        for line in lines {
            serde_json::to_writer(&mut bytes, line)
                .map_err(|source| ArchiveError::Unreadable { path: path.clone(), source })?;
            bytes.push(b'\n');
        }
        let segment = Segment {
            name,
            bytes: bytes.len() as u64,
            sha256: digest(&bytes),
            entries: lines.len() as u64,
            end: end.to_string(),
        };
        self.put(&path, bytes).await?;
        Ok(segment)
    }

    pub(crate) async fn put_manifest(self, manifest: &Manifest) -> Result<(), ArchiveError> {
        let path = self.manifest_path();
        let bytes = serde_json::to_vec(manifest)
            .map_err(|source| ArchiveError::Unreadable { path: path.clone(), source })?;
        self.put(&path, bytes).await
    }

    /// Reads everything back and compares it.
    pub(crate) async fn verify(self, manifest: &Manifest) -> Result<(), ArchiveError> {
        if self.manifest().await?.as_ref() != Some(manifest) {
            return Err(ArchiveError::Damaged {
                path: self.manifest_path(),
                why: "it is not what was written",
            });
        }
        for segment in &manifest.segments {
            self.verified(segment).await?;
        }
        Ok(())
    }

    async fn put(self, path: &Path, bytes: Vec<u8>) -> Result<(), ArchiveError> {
        let failed = |source| ArchiveError::Store { action: "write", path: path.clone(), source };
        self.objects.store.put(path, PutPayload::from(bytes)).await.map_err(failed)?;
        Ok(())
    }

    async fn get(self, path: &Path) -> Result<Option<Vec<u8>>, ArchiveError> {
        let failed = |source| ArchiveError::Store { action: "read", path: path.clone(), source };
        let found = match self.objects.store.get(path).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            other => other.map_err(failed)?,
        };
        if found.meta.size > MAX_OBJECT_BYTES {
            return Err(ArchiveError::Damaged { path: path.clone(), why: "it is too long" });
        }
        let mut bytes = Vec::new();
        let mut parts = found.into_stream();
        while let Some(part) = parts.next().await {
            bytes.extend(part.map_err(failed)?);
        }
        Ok(Some(bytes))
    }

    /// Deletes an object. A missing object is not an error.
    pub(crate) async fn delete(self, path: &Path) -> Result<(), ArchiveError> {
        match self.objects.store.delete(path).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(source) => Err(ArchiveError::Store { action: "remove", path: path.clone(), source }),
        }
    }
}

pub(crate) fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
