//! Figures of days that are past, an object for each day, for ever: nothing here takes one away, and nothing writes other
//! figures over those that are there.

use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutPayload};

use crate::archive::{ArchiveError, digest};
use crate::objects::Objects;

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct FiguresArchive {
    objects: Objects,
}

impl FiguresArchive {
    #[must_use]
    pub fn new(objects: Objects) -> Self {
        Self { objects }
    }

    /// Keeps what is told of a day such as `2026-11-16`. It is durable, and was read back, when that is answered. The same
    /// may be kept again. Where another store, or this one before it was restored, has told something else of that day,
    /// both are kept.
    pub async fn keep(&self, day: &str, document: Vec<u8>) -> Result<(), ArchiveError> {
        let document = Bytes::from(document);
        let path = self.path(day);
        match self.put(&path, &document, PutMode::Create).await {
            Err(ArchiveError::Store { source: object_store::Error::AlreadyExists { .. }, .. }) => {
                self.keep_again(day, path, &document).await
            }
            Err(error) => Err(error),
            Ok(()) => self.verify(path, &document).await,
        }
    }

    async fn keep_again(&self, day: &str, path: Path, document: &Bytes) -> Result<(), ArchiveError> {
        let is_same = self.holds(&path, document).await?;
        let path = if is_same { path } else { self.path(&format!("{day}-{}", &digest(document)[..16])) };
        // Whoever wrote it may have died before it was on the disk.
        self.put(&path, document, PutMode::Overwrite).await?;
        self.verify(path, document).await
    }

    async fn verify(&self, path: Path, document: &Bytes) -> Result<(), ArchiveError> {
        if self.holds(&path, document).await? {
            return Ok(());
        }
        Err(ArchiveError::Damaged { path, why: "it is not what was written" })
    }

    async fn put(&self, path: &Path, document: &Bytes, how: PutMode) -> Result<(), ArchiveError> {
        let failed = |source| ArchiveError::Store { doing: "write", path: path.clone(), source };
        let payload = PutPayload::from(document.clone());
        self.objects.store.put_opts(path, payload, how.into()).await.map_err(failed)?;
        Ok(())
    }

    async fn holds(&self, path: &Path, document: &Bytes) -> Result<bool, ArchiveError> {
        let failed = |source| ArchiveError::Store { doing: "read", path: path.clone(), source };
        let found = self.objects.store.get(path).await.map_err(failed)?;
        Ok(found.meta.size == document.len() as u64 && found.bytes().await.map_err(failed)? == *document)
    }

    fn path(&self, name: &str) -> Path {
        self.objects.path(&["archive", "figures", &format!("{name}.json")])
    }
}
