//! Files inside a sandbox.

use pinfold_api::{FileEntry, FileListing, FileRemoved, FileWritten};
use pinfold_lifecycle::{Life, SandboxId, Timestamp};
use pinfold_provider::{Body, Content, Files, Metadata, Pieces};

use super::words::{self, moment};
use super::{Failure, Service, body_of};

/// Entries told of one directory.
const MOST_ENTRIES: usize = 10_000;

impl Service {
    /// From a place on, no more than `most` bytes.
    pub async fn read_file(
        &self,
        id: SandboxId,
        path: &str,
        from: u64,
        most: u64,
    ) -> Result<Content, Failure> {
        let body = self.body_at_work(id).await?;
        Ok(self.host.provider.read(body, path.as_bytes(), from, most).await?)
    }

    pub async fn write_file(
        &self,
        id: SandboxId,
        path: &str,
        mode: Option<u32>,
        content: &mut dyn Pieces,
    ) -> Result<FileWritten, Failure> {
        let body = self.body_at_work(id).await?;
        let bytes = self.host.provider.write(body, path.as_bytes(), mode, content).await?;
        Ok(FileWritten { path: path.to_owned(), bytes })
    }

    pub async fn list_files(&self, id: SandboxId, path: &str) -> Result<FileListing, Failure> {
        let body = self.body_at_work(id).await?;
        let listing = self.host.provider.list(body, path.as_bytes(), MOST_ENTRIES).await?;
        let mut entries: Vec<_> = listing.entries.iter().map(|it| entry(&it.name, &it.metadata)).collect();
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(FileListing { path: path.to_owned(), entries, more: listing.more })
    }

    pub async fn remove_file(
        &self,
        id: SandboxId,
        path: &str,
        recursive: bool,
    ) -> Result<FileRemoved, Failure> {
        let body = self.body_at_work(id).await?;
        let removed = self.host.provider.remove(body, path.as_bytes(), recursive).await?;
        Ok(FileRemoved { path: path.to_owned(), removed })
    }

    /// Asking what has ended to work is told why it has.
    async fn body_at_work(&self, id: SandboxId) -> Result<Body, Failure> {
        let stored = self.stored(id).await?;
        match stored.sandbox.life {
            Life::Wanted => Ok(body_of(&stored)),
            Life::Ending { cause, .. } | Life::Ended { cause, .. } => Err(Failure::gone(cause)),
        }
    }
}

fn entry(name: &[u8], metadata: &Metadata) -> FileEntry {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    FileEntry {
        name: text(name),
        kind: words::file_kind(metadata.kind),
        size: metadata.size,
        mode: metadata.mode,
        uid: metadata.uid,
        gid: metadata.gid,
        modified_at: moment(Timestamp(metadata.modified_ms)),
        target: metadata.target.as_deref().map(text),
    }
}
