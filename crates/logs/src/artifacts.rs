//! Artifacts of runs: named content with its length and digest. The description of an artifact is written last, so the
//! artifact is there whole or not at all, also while it is replaced.

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload, WriteMultipart};
use pinfold_lifecycle::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::archive::{digest, hex};
use crate::names::{NameError, check_artifact_name, check_run_id};
use crate::object_storage::ObjectStorage;
use crate::retention::{
    ListedObject, ObjectGroup, RemovalMode, RemovalTally, Removed, RetentionError, RetentionPeriods,
    day_before, groups,
};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    pub name: String,
    pub size: u64,
    pub sha256: String,
    pub content_type: String,
    pub created_at: Timestamp,
}

/// The largest artifact, and the number of artifacts of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArtifactLimits {
    pub bytes: u64,
    pub artifacts: usize,
}

impl Default for ArtifactLimits {
    fn default() -> Self {
        Self { bytes: 256 << 20, artifacts: 1_000 }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("`{given}` is not a content type")]
    ContentType { given: String },
    #[error("an artifact may have at most {limit} bytes")]
    TooLarge { limit: u64 },
    #[error("a run may have at most {limit} artifacts")]
    TooMany { limit: usize },
    #[error("run `{run}` has no artifact `{name}`")]
    NoSuchArtifact { run: String, name: String },
    #[error("could not read the content of the artifact")]
    Content { source: std::io::Error },
    #[error("could not {action} an artifact of run `{run}` in the object store")]
    Store { action: &'static str, run: String, source: object_store::Error },
    #[error("the description of an artifact of run `{run}` cannot be parsed")]
    Unreadable { run: String, source: serde_json::Error },
}

/// The content of an artifact as a stream.
pub type ArtifactContent = BoxStream<'static, Result<Bytes, std::io::Error>>;

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct Artifacts {
    objects: ObjectStorage,
    limits: ArtifactLimits,
}

/// The stored description of an artifact: what users see, and the object with its content.
#[derive(Debug, Serialize, Deserialize)]
struct Description {
    #[serde(flatten)]
    artifact: Artifact,
    content: String,
}

const DESCRIPTION: &str = ".json";
/// The largest description that is read.
const MAX_DESCRIPTION_BYTES: u64 = 64 * 1024;
/// How often a read is repeated because the artifact was replaced meanwhile.
const MAX_ATTEMPTS: usize = 3;

impl Artifacts {
    #[must_use]
    pub fn new(objects: ObjectStorage, limits: ArtifactLimits) -> Self {
        Self { objects, limits }
    }

    /// Stores an artifact, replacing an earlier one of the same name. If its content cannot be read or is too long, nothing
    /// is stored.
    pub async fn put(
        &self,
        run: &str,
        name: &str,
        content_type: &str,
        content: impl Stream<Item = Result<Bytes, std::io::Error>> + Send,
        now: Timestamp,
    ) -> Result<Artifact, ArtifactError> {
        check_run_id(run)?;
        check_artifact_name(name)?;
        check_content_type(content_type)?;
        let before = self.description(run, name).await?;
        if before.is_none() && self.descriptions(run).await?.len() >= self.limits.artifacts {
            return Err(ArtifactError::TooMany { limit: self.limits.artifacts });
        }
        let object = format!("{}.{}", key(name), uuid::Uuid::now_v7().simple());
        let (size, sha256) = self.write(run, &self.path(run, &object), content).await?;
        let (name, content_type) = (name.to_owned(), content_type.to_owned());
        let artifact = Artifact { name, size, sha256, content_type, created_at: now };
        let described = Description { artifact, content: object };
        let text = serde_json::to_vec(&described)
            .map_err(|source| ArtifactError::Unreadable { run: run.to_owned(), source })?;
        let path = self.path(run, &format!("{}{DESCRIPTION}", key(&described.artifact.name)));
        let put = self.objects.store.put(&path, PutPayload::from(text)).await;
        put.map_err(|source| failed("write", run, source))?;
        if let Some(before) = before {
            self.delete(run, &self.path(run, &before.content)).await?;
        }
        Ok(described.artifact)
    }

    /// An artifact and its content.
    pub async fn get(&self, run: &str, name: &str) -> Result<(Artifact, ArtifactContent), ArtifactError> {
        check_run_id(run)?;
        check_artifact_name(name)?;
        for _ in 0..MAX_ATTEMPTS {
            let Some(described) = self.description(run, name).await? else { break };
            match self.objects.store.get(&self.path(run, &described.content)).await {
                Ok(found) => {
                    let content = found.into_stream().map(|part| part.map_err(std::io::Error::from));
                    return Ok((described.artifact, content.boxed()));
                }
                // It was replaced after its description was read.
                Err(object_store::Error::NotFound { .. }) => {}
                Err(source) => return Err(failed("read", run, source)),
            }
        }
        Err(ArtifactError::NoSuchArtifact { run: run.to_owned(), name: name.to_owned() })
    }

    /// All artifacts of a run, sorted by name.
    pub async fn list(&self, run: &str) -> Result<Vec<Artifact>, ArtifactError> {
        check_run_id(run)?;
        let mut artifacts = Vec::new();
        for path in self.descriptions(run).await? {
            artifacts.extend(self.describe(run, &path).await?.map(|described| described.artifact));
        }
        artifacts.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(artifacts)
    }

    /// Deletes artifacts past their retention and abandoned uploads; returns the number of artifacts.
    pub async fn expire(&self, keep: RetentionPeriods, now: Timestamp) -> Result<usize, RetentionError> {
        Ok(self.clear_stale(keep, now, RemovalMode::Remove).await?.count)
    }

    /// Does the same, or only reports what it would delete.
    pub async fn clear_stale(
        &self,
        keep: RetentionPeriods,
        now: Timestamp,
        mode: RemovalMode,
    ) -> Result<Removed, RetentionError> {
        let before = Timestamp(now.0.saturating_sub_unsigned(keep.artifacts_ms));
        let mut expired = RemovalTally::default();
        for run in groups(&self.objects, &self.objects.path(&["artifacts"])).await?.into_values() {
            expired.add(self.expire_run(run, before, now, mode).await);
        }
        expired.finish()
    }

    async fn expire_run(
        &self,
        run: ObjectGroup,
        before: Timestamp,
        now: Timestamp,
        mode: RemovalMode,
    ) -> Result<Removed, RetentionError> {
        // Descriptions are deleted first, so that none is left without its content.
        let (described, contents): (Vec<_>, Vec<_>) =
            run.objects.into_iter().partition(|object| is_description(&object.path));
        let (mut removed, mut kept) = (Removed::default(), Vec::new());
        for object in described {
            if object.at < before {
                self.remove(&object, mode, &mut removed).await?;
                removed.count += 1;
            } else {
                kept.push(stem(&object.path));
            }
        }
        for object in contents {
            // Content that is younger may be about to get its description.
            let is_old =
                object.at < before || (object.at < day_before(now) && !kept.contains(&stem(&object.path)));
            if is_old {
                self.remove(&object, mode, &mut removed).await?;
            }
        }
        Ok(removed)
    }

    async fn remove(
        &self,
        object: &ListedObject,
        mode: RemovalMode,
        removed: &mut Removed,
    ) -> Result<(), RetentionError> {
        removed.bytes += object.bytes;
        if mode == RemovalMode::DryRun {
            return Ok(());
        }
        match self.objects.store.delete(&object.path).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(source) => Err(RetentionError::List { source }),
        }
    }

    /// Uploads in parts, so that memory use is bounded.
    async fn write(
        &self,
        run: &str,
        path: &Path,
        content: impl Stream<Item = Result<Bytes, std::io::Error>> + Send,
    ) -> Result<(u64, String), ArtifactError> {
        let begun = self.objects.store.put_multipart(path).await;
        let mut upload = WriteMultipart::new(begun.map_err(|source| failed("begin", run, source))?);
        match self.feed(run, &mut upload, content).await {
            Ok(written) => {
                upload.finish().await.map_err(|source| failed("write", run, source))?;
                Ok(written)
            }
            Err(error) => {
                upload.abort().await.map_err(|source| failed("abort", run, source))?;
                Err(error)
            }
        }
    }

    async fn feed(
        &self,
        run: &str,
        upload: &mut WriteMultipart,
        content: impl Stream<Item = Result<Bytes, std::io::Error>> + Send,
    ) -> Result<(u64, String), ArtifactError> {
        let (mut size, mut sha256) = (0, Sha256::new());
        let mut content = std::pin::pin!(content);
        while let Some(part) = content.next().await {
            let part = part.map_err(|source| ArtifactError::Content { source })?;
            size += part.len() as u64;
            if size > self.limits.bytes {
                return Err(ArtifactError::TooLarge { limit: self.limits.bytes });
            }
            sha256.update(&part);
            upload.wait_for_capacity(UPLOADS).await.map_err(|source| failed("write", run, source))?;
            upload.put(part);
        }
        Ok((size, hex(&sha256.finalize())))
    }

    fn path(&self, run: &str, object: &str) -> Path {
        self.objects.path(&["artifacts", run, object])
    }

    async fn description(&self, run: &str, name: &str) -> Result<Option<Description>, ArtifactError> {
        self.describe(run, &self.path(run, &format!("{}{DESCRIPTION}", key(name)))).await
    }

    async fn describe(&self, run: &str, path: &Path) -> Result<Option<Description>, ArtifactError> {
        let found = match self.objects.store.get(path).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            other => other.map_err(|source| failed("read", run, source))?,
        };
        let unreadable = |source| ArtifactError::Unreadable { run: run.to_owned(), source };
        if found.meta.size > MAX_DESCRIPTION_BYTES {
            return Err(unreadable(serde::de::Error::custom("it is too long")));
        }
        let bytes = found.bytes().await.map_err(|source| failed("read", run, source))?;
        serde_json::from_slice(&bytes).map(Some).map_err(unreadable)
    }

    async fn descriptions(&self, run: &str) -> Result<Vec<Path>, ArtifactError> {
        let below = self.objects.path(&["artifacts", run]);
        let mut listed = self.objects.store.list(Some(&below));
        let mut paths = Vec::new();
        while let Some(found) = listed.next().await {
            let found = found.map_err(|source| failed("list", run, source))?;
            if is_description(&found.location) {
                paths.push(found.location);
            }
        }
        Ok(paths)
    }

    async fn delete(&self, run: &str, path: &Path) -> Result<(), ArtifactError> {
        match self.objects.store.delete(path).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(source) => Err(failed("remove", run, source)),
        }
    }
}

/// Parts that are uploaded at the same time.
const UPLOADS: usize = 2;

fn failed(action: &'static str, run: &str, source: object_store::Error) -> ArtifactError {
    ArtifactError::Store { action, run: run.to_owned(), source }
}

/// An object name that every object store and file system accepts, whatever the name of the artifact.
fn key(name: &str) -> String {
    digest(name.as_bytes()).split_off(32)
}

fn is_description(path: &Path) -> bool {
    path.filename().is_some_and(|name| name.ends_with(DESCRIPTION))
}

fn stem(path: &Path) -> String {
    path.filename().and_then(|name| name.split('.').next()).unwrap_or_default().to_owned()
}

/// The content type goes into response headers.
fn check_content_type(given: &str) -> Result<(), ArtifactError> {
    let fits = given.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    if fits && given.len() <= 128 && given.contains('/') {
        return Ok(());
    }
    Err(ArtifactError::ContentType { given: given.chars().take(128).collect() })
}
