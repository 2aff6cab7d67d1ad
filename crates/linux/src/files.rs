//! File operations inside an instance, carried out by its keeper.

mod connection;
mod translate;

use async_trait::async_trait;
use pinfold_keeper_wire::files::{FileAnswer, FileRequest, PathBytes};
use pinfold_provider::{
    ContentStream, FileChange, FileChanges, FileContent, FileError, Files, InstanceId, Listing, Metadata,
};

use self::connection::Connection;
use self::translate::{change, entry, metadata};
use crate::provider::LinuxProvider;

#[async_trait]
impl Files for LinuxProvider {
    async fn stat(&self, instance: InstanceId, path: &[u8]) -> Result<Metadata, FileError> {
        let mut connection = self.open_request(instance, FileRequest::Stat { path: name(path) }).await?;
        match connection.answer().await? {
            FileAnswer::Metadata(found) => Ok(metadata(found)),
            other => Err(unexpected(&other)),
        }
    }

    async fn list(&self, instance: InstanceId, path: &[u8], most: usize) -> Result<Listing, FileError> {
        let mut connection =
            self.open_request(instance, FileRequest::List { path: name(path), most }).await?;
        let mut listing = Listing { entries: Vec::new(), more: false };
        loop {
            match connection.answer().await? {
                FileAnswer::Entries { entries } => listing.entries.extend(entries.into_iter().map(entry)),
                FileAnswer::Done { more, .. } => return Ok(Listing { more, ..listing }),
                other => return Err(unexpected(&other)),
            }
        }
    }

    async fn read(
        &self,
        instance: InstanceId,
        path: &[u8],
        from: u64,
        most: u64,
    ) -> Result<FileContent, FileError> {
        let request = FileRequest::Read { path: name(path), from, most };
        let mut connection = self.open_request(instance, request).await?;
        match connection.answer().await? {
            FileAnswer::Metadata(found) => Ok(FileContent {
                metadata: metadata(found),
                pieces: Box::new(KeeperContent(Some(connection))),
            }),
            other => Err(unexpected(&other)),
        }
    }

    async fn write(
        &self,
        instance: InstanceId,
        path: &[u8],
        mode: Option<u32>,
        content: &mut dyn ContentStream,
    ) -> Result<u64, FileError> {
        let mut connection =
            self.open_request(instance, FileRequest::Write { path: name(path), mode }).await?;
        match connection.answer().await? {
            FileAnswer::Ready => {}
            other => return Err(unexpected(&other)),
        }
        // If the source fails, the connection closes without an end marker and the keeper discards the draft.
        while let Some(piece) = content.next().await? {
            connection.send_piece(&piece).await?;
        }
        connection.end_pieces().await?;
        connection.done().await
    }

    async fn make_directory(
        &self,
        instance: InstanceId,
        path: &[u8],
        parents: bool,
    ) -> Result<(), FileError> {
        let request = FileRequest::MakeDirectory { path: name(path), parents };
        self.open_request(instance, request).await?.done().await.map(drop)
    }

    async fn set_mode(&self, instance: InstanceId, path: &[u8], mode: u32) -> Result<(), FileError> {
        let request = FileRequest::SetMode { path: name(path), mode };
        self.open_request(instance, request).await?.done().await.map(drop)
    }

    async fn make_link(&self, instance: InstanceId, path: &[u8], target: &[u8]) -> Result<(), FileError> {
        let request = FileRequest::MakeLink { path: name(path), target: name(target) };
        self.open_request(instance, request).await?.done().await.map(drop)
    }

    async fn rename(
        &self,
        instance: InstanceId,
        from: &[u8],
        to: &[u8],
        replace: bool,
    ) -> Result<(), FileError> {
        let request = FileRequest::Rename { from: name(from), to: name(to), replace };
        self.open_request(instance, request).await?.done().await.map(drop)
    }

    async fn remove(&self, instance: InstanceId, path: &[u8], recursive: bool) -> Result<u64, FileError> {
        let request = FileRequest::Remove { path: name(path), recursive };
        self.open_request(instance, request).await?.done().await
    }

    async fn watch(&self, instance: InstanceId, path: &[u8]) -> Result<Box<dyn FileChanges>, FileError> {
        let mut connection = self.open_request(instance, FileRequest::Watch { path: name(path) }).await?;
        match connection.answer().await? {
            FileAnswer::Ready => Ok(Box::new(KeeperChanges(connection))),
            other => Err(unexpected(&other)),
        }
    }
}

impl LinuxProvider {
    async fn open_request(
        &self,
        instance: InstanceId,
        request: FileRequest,
    ) -> Result<Connection, FileError> {
        Connection::open(&self.data_paths.of(instance), request).await
    }
}

fn name(path: &[u8]) -> PathBytes {
    PathBytes(path.to_vec())
}

fn unexpected(answer: &FileAnswer) -> FileError {
    let kind = match answer {
        FileAnswer::Metadata(_) => "metadata",
        FileAnswer::Entries { .. } => "entries",
        FileAnswer::Ready => "ready",
        FileAnswer::Changes { .. } => "changes",
        FileAnswer::Done { .. } => "done",
        FileAnswer::Refused { .. } => "refused",
    };
    FileError::NoAnswer { why: format!("unexpected answer of the keeper: {kind}") }
}

/// The content of a file as it is received. `None` once it is complete.
struct KeeperContent(Option<Connection>);

#[async_trait]
impl ContentStream for KeeperContent {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, FileError> {
        let Some(mut connection) = self.0.take() else { return Ok(None) };
        match connection.receive_piece().await? {
            Some(piece) => {
                self.0 = Some(connection);
                Ok(Some(piece))
            }
            // Only the final answer says whether the content is complete.
            None => connection.done().await.map(|_| None),
        }
    }
}

/// Changes below a watched directory, as the keeper sends them.
struct KeeperChanges(Connection);

#[async_trait]
impl FileChanges for KeeperChanges {
    async fn next(&mut self) -> Result<Option<Vec<FileChange>>, FileError> {
        match self.0.answer_without_timeout().await? {
            FileAnswer::Changes { changes } => Ok(Some(changes.into_iter().map(change).collect())),
            FileAnswer::Done { .. } => Ok(None),
            other => Err(unexpected(&other)),
        }
    }
}
