//! Metrics of past days, one object per day, kept for ever: nothing deletes an object, and nothing replaces it by other
//! content.

use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutPayload};

use crate::archive::{ArchiveError, digest};
use crate::object_storage::ObjectStorage;

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct MetricsArchive {
    objects: ObjectStorage,
}

impl MetricsArchive {
    #[must_use]
    pub fn new(objects: ObjectStorage) -> Self {
        Self { objects }
    }

    /// Stores the metrics of a day such as `2026-11-16`. When it returns, the object is durable and was read back. The same
    /// document may be stored again. If another store, or this one before it was restored from a backup, has stored other
    /// metrics of that day, both are kept.
    pub async fn keep(&self, day: &str, document: Vec<u8>) -> Result<(), ArchiveError> {
        let document = Bytes::from(document);
        let path = self.path(day);
        match self.put(&path, &document, PutMode::Create).await {
            Err(ArchiveError::Store { source: object_store::Error::AlreadyExists { .. }, .. }) => {
                self.store_again(day, path, &document).await
            }
            Err(error) => Err(error),
            Ok(()) => self.verify(path, &document).await,
        }
    }

    async fn store_again(&self, day: &str, path: Path, document: &Bytes) -> Result<(), ArchiveError> {
        let is_same = self.holds(&path, document).await?;
        let path = if is_same { path } else { self.path(&format!("{day}-{}", &digest(document)[..16])) };
        // The process that wrote it may have crashed before it was durable.
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
        let failed = |source| ArchiveError::Store { action: "write", path: path.clone(), source };
        let payload = PutPayload::from(document.clone());
        self.objects.store.put_opts(path, payload, how.into()).await.map_err(failed)?;
        Ok(())
    }

    async fn holds(&self, path: &Path, document: &Bytes) -> Result<bool, ArchiveError> {
        let failed = |source| ArchiveError::Store { action: "read", path: path.clone(), source };
        let found = self.objects.store.get(path).await.map_err(failed)?;
        Ok(found.meta.size == document.len() as u64 && found.bytes().await.map_err(failed)? == *document)
    }

    fn path(&self, name: &str) -> Path {
        self.objects.path(&["archive", "metrics", &format!("{name}.json")])
    }
}
