//! Files with one defect at a time.

use async_trait::async_trait;
use pinfold_provider::{
    ContentStream, FileChanges, FileContent, FileError, FileKind, Files, InMemoryContent, InstanceId,
    Listing, Metadata,
};

use crate::broken::Broken;
use crate::caught::Defect;

const FOUND: Metadata =
    Metadata { kind: FileKind::File, size: 0, mode: 0o644, uid: 0, gid: 0, modified_ms: 0, target: None };

impl Broken {
    /// Where the defect looks for a file.
    fn path(&self, path: &[u8]) -> Vec<u8> {
        match path.strip_prefix(b"/workspace") {
            Some(rest) if self.defect == Defect::HasFilesOfItsOwn => [b"/tmp", rest].concat(),
            Some(_) | None => path.to_vec(),
        }
    }

    /// Whether the defect hides this error.
    fn hides(&self, error: &FileError) -> bool {
        match error {
            FileError::NotFound { .. } => self.defect == Defect::FindsEveryFile,
            FileError::NoSuchInstance => self.defect == Defect::ServesMissingInstances,
            _ => false,
        }
    }
}

#[async_trait]
impl Files for Broken {
    async fn stat(&self, instance: InstanceId, path: &[u8]) -> Result<Metadata, FileError> {
        let found = self.inner.files().stat(instance, &self.path(path)).await;
        match found {
            Ok(Metadata { kind: FileKind::Link, target: Some(target), .. })
                if self.defect == Defect::FollowsLinks =>
            {
                self.inner.files().stat(instance, &target).await
            }
            Err(error) if self.hides(&error) => Ok(FOUND),
            found => found,
        }
    }

    async fn list(&self, instance: InstanceId, path: &[u8], most: usize) -> Result<Listing, FileError> {
        let mut listing = self.inner.files().list(instance, &self.path(path), most).await?;
        listing.more &= self.defect != Defect::ListsWithoutRest;
        Ok(listing)
    }

    async fn read(
        &self,
        instance: InstanceId,
        path: &[u8],
        from: u64,
        most: u64,
    ) -> Result<FileContent, FileError> {
        let from = if self.defect == Defect::ReadsFromTheStart { 0 } else { from };
        match self.inner.files().read(instance, &self.path(path), from, most).await {
            Err(error) if self.hides(&error) => {
                Ok(FileContent { metadata: FOUND, pieces: Box::new(InMemoryContent::new(Vec::new())) })
            }
            content => content,
        }
    }

    async fn write(
        &self,
        instance: InstanceId,
        path: &[u8],
        mode: Option<u32>,
        content: &mut dyn ContentStream,
    ) -> Result<u64, FileError> {
        self.inner.files().write(instance, &self.path(path), mode, content).await
    }

    async fn make_directory(
        &self,
        instance: InstanceId,
        path: &[u8],
        parents: bool,
    ) -> Result<(), FileError> {
        self.inner.files().make_directory(instance, &self.path(path), parents).await
    }

    async fn set_mode(&self, instance: InstanceId, path: &[u8], mode: u32) -> Result<(), FileError> {
        self.inner.files().set_mode(instance, &self.path(path), mode).await
    }

    async fn make_link(&self, instance: InstanceId, path: &[u8], target: &[u8]) -> Result<(), FileError> {
        self.inner.files().make_link(instance, &self.path(path), target).await
    }

    async fn rename(
        &self,
        instance: InstanceId,
        from: &[u8],
        to: &[u8],
        replace: bool,
    ) -> Result<(), FileError> {
        let replace = replace || self.defect == Defect::RenamesOverOthers;
        self.inner.files().rename(instance, &self.path(from), &self.path(to), replace).await
    }

    async fn remove(&self, instance: InstanceId, path: &[u8], recursive: bool) -> Result<u64, FileError> {
        let recursive = recursive || self.defect == Defect::RemovesWithEntries;
        self.inner.files().remove(instance, &self.path(path), recursive).await
    }

    async fn watch(&self, instance: InstanceId, path: &[u8]) -> Result<Box<dyn FileChanges>, FileError> {
        self.inner.files().watch(instance, &self.path(path)).await
    }
}
