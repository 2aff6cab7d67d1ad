//! Files inside a body, asked of its keeper.

mod connection;
mod translate;

use async_trait::async_trait;
use pinfold_keeper::files::wire::{FileAnswer, FileRequest, Name};
use pinfold_provider::{Change, Changes, Content, FileError, Files, InstanceId, Listing, Metadata, Pieces};

use self::connection::Connection;
use self::translate::{change, entry, metadata};
use crate::provider::LinuxProvider;

#[async_trait]
impl Files for LinuxProvider {
    async fn stat(&self, body: InstanceId, path: &[u8]) -> Result<Metadata, FileError> {
        let mut connection = self.ask_for_files(body, FileRequest::Stat { path: name(path) }).await?;
        match connection.answer().await? {
            FileAnswer::Metadata(told) => Ok(metadata(told)),
            other => Err(unexpected(&other)),
        }
    }

    async fn list(&self, body: InstanceId, path: &[u8], most: usize) -> Result<Listing, FileError> {
        let mut connection = self.ask_for_files(body, FileRequest::List { path: name(path), most }).await?;
        let mut listing = Listing { entries: Vec::new(), more: false };
        loop {
            match connection.answer().await? {
                FileAnswer::Entries { entries } => listing.entries.extend(entries.into_iter().map(entry)),
                FileAnswer::Done { more, .. } => return Ok(Listing { more, ..listing }),
                other => return Err(unexpected(&other)),
            }
        }
    }

    async fn read(&self, body: InstanceId, path: &[u8], from: u64, most: u64) -> Result<Content, FileError> {
        let request = FileRequest::Read { path: name(path), from, most };
        let mut connection = self.ask_for_files(body, request).await?;
        match connection.answer().await? {
            FileAnswer::Metadata(told) => {
                Ok(Content { metadata: metadata(told), pieces: Box::new(Arriving(Some(connection))) })
            }
            other => Err(unexpected(&other)),
        }
    }

    async fn write(
        &self,
        body: InstanceId,
        path: &[u8],
        mode: Option<u32>,
        content: &mut dyn Pieces,
    ) -> Result<u64, FileError> {
        let mut connection = self.ask_for_files(body, FileRequest::Write { path: name(path), mode }).await?;
        match connection.answer().await? {
            FileAnswer::Ready => {}
            other => return Err(unexpected(&other)),
        }
        // A source that fails closes the connection without an end: the draft is given up inside.
        while let Some(piece) = content.next().await? {
            connection.send_piece(&piece).await?;
        }
        connection.end_pieces().await?;
        connection.done().await
    }

    async fn make_directory(&self, body: InstanceId, path: &[u8], parents: bool) -> Result<(), FileError> {
        let request = FileRequest::MakeDirectory { path: name(path), parents };
        self.ask_for_files(body, request).await?.done().await.map(drop)
    }

    async fn set_mode(&self, body: InstanceId, path: &[u8], mode: u32) -> Result<(), FileError> {
        let request = FileRequest::SetMode { path: name(path), mode };
        self.ask_for_files(body, request).await?.done().await.map(drop)
    }

    async fn make_link(&self, body: InstanceId, path: &[u8], target: &[u8]) -> Result<(), FileError> {
        let request = FileRequest::MakeLink { path: name(path), target: name(target) };
        self.ask_for_files(body, request).await?.done().await.map(drop)
    }

    async fn rename(&self, body: InstanceId, from: &[u8], to: &[u8], replace: bool) -> Result<(), FileError> {
        let request = FileRequest::Rename { from: name(from), to: name(to), replace };
        self.ask_for_files(body, request).await?.done().await.map(drop)
    }

    async fn remove(&self, body: InstanceId, path: &[u8], recursive: bool) -> Result<u64, FileError> {
        let request = FileRequest::Remove { path: name(path), recursive };
        self.ask_for_files(body, request).await?.done().await
    }

    async fn watch(&self, body: InstanceId, path: &[u8]) -> Result<Box<dyn Changes>, FileError> {
        let mut connection = self.ask_for_files(body, FileRequest::Watch { path: name(path) }).await?;
        match connection.answer().await? {
            FileAnswer::Ready => Ok(Box::new(Watching(connection))),
            other => Err(unexpected(&other)),
        }
    }
}

impl LinuxProvider {
    async fn ask_for_files(&self, body: InstanceId, request: FileRequest) -> Result<Connection, FileError> {
        Connection::open(&self.grounds.of(body), request).await
    }
}

fn name(path: &[u8]) -> Name {
    Name(path.to_vec())
}

fn unexpected(answer: &FileAnswer) -> FileError {
    FileError::NoAnswer { why: format!("it answered something else: {answer:?}") }
}

/// A file's content on its way. None once it has all arrived.
struct Arriving(Option<Connection>);

#[async_trait]
impl Pieces for Arriving {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, FileError> {
        let Some(mut connection) = self.0.take() else { return Ok(None) };
        match connection.receive_piece().await? {
            Some(piece) => {
                self.0 = Some(connection);
                Ok(Some(piece))
            }
            // Only now is it known whether that was all.
            None => connection.done().await.map(|_| None),
        }
    }
}

struct Watching(Connection);

#[async_trait]
impl Changes for Watching {
    async fn next(&mut self) -> Result<Option<Vec<Change>>, FileError> {
        match self.0.answer_some_time().await? {
            FileAnswer::Changes { changes } => Ok(Some(changes.into_iter().map(change).collect())),
            FileAnswer::Done { .. } => Ok(None),
            other => Err(unexpected(&other)),
        }
    }
}
