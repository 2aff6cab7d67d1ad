//! Artifacts of runs: named content with its length and digest. What describes one is written last, so an artifact is
//! there whole or not at all, also while it is replaced.

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload, WriteMultipart};
use pinfold_lifecycle::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::archive::{digest, hex};
use crate::name::{NameError, check_name, check_run};
use crate::objects::Objects;
use crate::retention::{Expired, Expiry, Gone, Group, Keep, Listed, RetentionError, day_before, groups};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    pub name: String,
    pub size: u64,
    pub sha256: String,
    pub content_type: String,
    pub created_at: Timestamp,
}

/// What one artifact and one run may have at the most.
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
    #[error("an artifact has {limit} bytes at the most")]
    TooLarge { limit: u64 },
    #[error("a run has {limit} artifacts at the most")]
    TooMany { limit: usize },
    #[error("run `{run}` has no artifact `{name}`")]
    NoSuchArtifact { run: String, name: String },
    #[error("could not read what was to be kept")]
    Content { source: std::io::Error },
    #[error("could not {doing} an artifact of run `{run}` in the object store")]
    Store { doing: &'static str, run: String, source: object_store::Error },
    #[error("what describes an artifact of run `{run}` cannot be understood")]
    Unreadable { run: String, source: serde_json::Error },
}

/// The content of an artifact as it comes.
pub type Content = BoxStream<'static, Result<Bytes, std::io::Error>>;

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct Artifacts {
    objects: Objects,
    limits: ArtifactLimits,
}

/// What is written of an artifact: all that users see, and where its content is.
#[derive(Debug, Serialize, Deserialize)]
struct Described {
    #[serde(flatten)]
    artifact: Artifact,
    content: String,
}

const DESCRIPTION: &str = ".json";
/// No description is longer.
const LONGEST_DESCRIPTION: u64 = 64 * 1024;
/// How often an artifact may be replaced under a reader before that is told.
const TRIES: usize = 3;

impl Artifacts {
    #[must_use]
    pub fn new(objects: Objects, limits: ArtifactLimits) -> Self {
        Self { objects, limits }
    }

    /// Keeps an artifact, in place of an earlier one of the same name. Nothing of it is kept if its content fails
    /// or is too long.
    pub async fn put(
        &self,
        run: &str,
        name: &str,
        content_type: &str,
        content: impl Stream<Item = Result<Bytes, std::io::Error>> + Send,
        now: Timestamp,
    ) -> Result<Artifact, ArtifactError> {
        check_run(run)?;
        check_name(name)?;
        check_content_type(content_type)?;
        let before = self.described(run, name).await?;
        if before.is_none() && self.descriptions(run).await?.len() >= self.limits.artifacts {
            return Err(ArtifactError::TooMany { limit: self.limits.artifacts });
        }
        let object = format!("{}.{}", key(name), uuid::Uuid::now_v7().simple());
        let (size, sha256) = self.write(run, &self.path(run, &object), content).await?;
        let (name, content_type) = (name.to_owned(), content_type.to_owned());
        let artifact = Artifact { name, size, sha256, content_type, created_at: now };
        let described = Described { artifact, content: object };
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
    pub async fn get(&self, run: &str, name: &str) -> Result<(Artifact, Content), ArtifactError> {
        check_run(run)?;
        check_name(name)?;
        for _ in 0..TRIES {
            let Some(described) = self.described(run, name).await? else { break };
            match self.objects.store.get(&self.path(run, &described.content)).await {
                Ok(found) => {
                    let content = found.into_stream().map(|part| part.map_err(std::io::Error::from));
                    return Ok((described.artifact, content.boxed()));
                }
                // It was replaced since it was described.
                Err(object_store::Error::NotFound { .. }) => {}
                Err(source) => return Err(failed("read", run, source)),
            }
        }
        Err(ArtifactError::NoSuchArtifact { run: run.to_owned(), name: name.to_owned() })
    }

    /// All artifacts of a run by name. A run that has none has an empty list.
    pub async fn list(&self, run: &str) -> Result<Vec<Artifact>, ArtifactError> {
        check_run(run)?;
        let mut artifacts = Vec::new();
        for path in self.descriptions(run).await? {
            artifacts.extend(self.describe(run, &path).await?.map(|described| described.artifact));
        }
        artifacts.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(artifacts)
    }

    /// Deletes artifacts that were made so long ago and uploads that came to nothing, and says how many artifacts.
    pub async fn expire(&self, keep: Keep, now: Timestamp) -> Result<usize, RetentionError> {
        Ok(self.clear_stale(keep, now, Expiry::Remove).await?.count)
    }

    /// The same, or only what it would come to.
    pub async fn clear_stale(&self, keep: Keep, now: Timestamp, how: Expiry) -> Result<Gone, RetentionError> {
        let before = Timestamp(now.0.saturating_sub_unsigned(keep.artifacts_ms));
        let mut expired = Expired::default();
        for run in groups(&self.objects, &self.objects.path(&["artifacts"])).await?.into_values() {
            expired.take_in(self.expire_run(run, before, now, how).await);
        }
        expired.told()
    }

    async fn expire_run(
        &self,
        run: Group,
        before: Timestamp,
        now: Timestamp,
        how: Expiry,
    ) -> Result<Gone, RetentionError> {
        // What describes an artifact goes first, so that none is described that is not there.
        let (described, contents): (Vec<_>, Vec<_>) =
            run.objects.into_iter().partition(|object| is_description(&object.path));
        let (mut gone, mut kept) = (Gone::default(), Vec::new());
        for object in described {
            if object.at < before {
                self.take_away(&object, how, &mut gone).await?;
                gone.count += 1;
            } else {
                kept.push(stem(&object.path));
            }
        }
        for object in contents {
            // One that is kept may be about to be described.
            let is_old =
                object.at < before || (object.at < day_before(now) && !kept.contains(&stem(&object.path)));
            if is_old {
                self.take_away(&object, how, &mut gone).await?;
            }
        }
        Ok(gone)
    }

    async fn take_away(&self, object: &Listed, how: Expiry, gone: &mut Gone) -> Result<(), RetentionError> {
        gone.bytes += object.bytes;
        if how == Expiry::Foretell {
            return Ok(());
        }
        match self.objects.store.delete(&object.path).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(source) => Err(RetentionError::List { source }),
        }
    }

    /// In parts, so that no more than some of it is in memory.
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
                upload.abort().await.map_err(|source| failed("give up", run, source))?;
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

    async fn described(&self, run: &str, name: &str) -> Result<Option<Described>, ArtifactError> {
        self.describe(run, &self.path(run, &format!("{}{DESCRIPTION}", key(name)))).await
    }

    async fn describe(&self, run: &str, path: &Path) -> Result<Option<Described>, ArtifactError> {
        let found = match self.objects.store.get(path).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            other => other.map_err(|source| failed("read", run, source))?,
        };
        let unreadable = |source| ArtifactError::Unreadable { run: run.to_owned(), source };
        if found.meta.size > LONGEST_DESCRIPTION {
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

/// Parts that are on their way at one time.
const UPLOADS: usize = 2;

fn failed(doing: &'static str, run: &str, source: object_store::Error) -> ArtifactError {
    ArtifactError::Store { doing, run: run.to_owned(), source }
}

/// A name that any object store and any file system can take, whatever users call it.
fn key(name: &str) -> String {
    digest(name.as_bytes()).split_off(32)
}

fn is_description(path: &Path) -> bool {
    path.filename().is_some_and(|name| name.ends_with(DESCRIPTION))
}

fn stem(path: &Path) -> String {
    path.filename().and_then(|name| name.split('.').next()).unwrap_or_default().to_owned()
}

/// It goes into headers of answers.
fn check_content_type(given: &str) -> Result<(), ArtifactError> {
    let fits = given.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    if fits && given.len() <= 128 && given.contains('/') {
        return Ok(());
    }
    Err(ArtifactError::ContentType { given: given.chars().take(128).collect() })
}
