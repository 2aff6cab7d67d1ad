//! Files inside a body, seen as code inside sees them. Beside [`crate::Provider`], which says how bodies live.

use async_trait::async_trait;

use crate::InstanceId;

/// Paths are of the body's own world, from its root or from where work is done. No path leads out of it, and nothing
/// that a file is made to be (a pipe, a link, a tree without end) holds up more than its own request.
#[async_trait]
pub trait Files: Send + Sync {
    /// Of a link itself, not of what it leads to.
    async fn stat(&self, body: InstanceId, path: &[u8]) -> Result<Metadata, FileError>;

    /// In no particular order; no more than `most`.
    async fn list(&self, body: InstanceId, path: &[u8], most: usize) -> Result<Listing, FileError>;

    /// From a place on, no more than `most` bytes. Links are followed.
    async fn read(&self, body: InstanceId, path: &[u8], from: u64, most: u64) -> Result<Content, FileError>;

    /// The file appears whole or not at all. What was there under this name, a link too, is replaced; without a mode
    /// it keeps the one it had.
    async fn write(
        &self,
        body: InstanceId,
        path: &[u8],
        mode: Option<u32>,
        content: &mut dyn Pieces,
    ) -> Result<u64, FileError>;

    /// With its parents, one that is there already is as good as one that is made.
    async fn make_directory(&self, body: InstanceId, path: &[u8], parents: bool) -> Result<(), FileError>;

    /// Of a file or a directory; no link is followed.
    async fn set_mode(&self, body: InstanceId, path: &[u8], mode: u32) -> Result<(), FileError>;

    async fn make_link(&self, body: InstanceId, path: &[u8], target: &[u8]) -> Result<(), FileError>;

    async fn rename(&self, body: InstanceId, from: &[u8], to: &[u8], replace: bool) -> Result<(), FileError>;

    /// Says how many files and directories went.
    async fn remove(&self, body: InstanceId, path: &[u8], recursive: bool) -> Result<u64, FileError>;

    /// Tells of changes in a directory, not in those below it, until it is dropped.
    async fn watch(&self, body: InstanceId, path: &[u8]) -> Result<Box<dyn Changes>, FileError>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    pub kind: FileKind,
    pub size: u64,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub modified_ms: i64,
    /// Where a link leads.
    pub target: Option<Vec<u8>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    File,
    Directory,
    Link,
    Pipe,
    Socket,
    Device,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub name: Vec<u8>,
    pub metadata: Metadata,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    pub entries: Vec<Entry>,
    /// There are more than were asked for.
    pub more: bool,
}

pub struct Content {
    pub metadata: Metadata,
    pub pieces: Box<dyn Pieces>,
}

/// What a file holds, piece by piece.
#[async_trait]
pub trait Pieces: Send {
    /// None at the end.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, FileError>;
}

#[async_trait]
pub trait Changes: Send {
    /// Waits for the next ones. None: what was watched is gone.
    async fn next(&mut self) -> Result<Option<Vec<Change>>, FileError>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub kind: ChangeKind,
    /// In the directory that is watched; empty where it is about that itself.
    pub name: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    Appeared,
    Changed,
    Vanished,
    /// More happened than could be kept: look again.
    Missed,
    /// What was watched is no longer there.
    Gone,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    #[error("not a path that can be used: {why}")]
    BadPath { why: String },
    #[error("not found: {why}")]
    NotFound { why: String },
    #[error("not a directory: {why}")]
    NotADirectory { why: String },
    #[error("a directory: {why}")]
    IsADirectory { why: String },
    /// A pipe, a socket or a device, which may never answer.
    #[error("not a plain file: {why}")]
    NotAFile { why: String },
    #[error("exists already: {why}")]
    Exists { why: String },
    #[error("not empty: {why}")]
    NotEmpty { why: String },
    /// A part of the world itself, such as `/proc`.
    #[error("in use: {why}")]
    InUse { why: String },
    #[error("not allowed: {why}")]
    Denied { why: String },
    #[error("no room is left: {why}")]
    Full { why: String },
    #[error("too many requests at a time: {why}")]
    Busy { why: String },
    #[error("could not be done: {why}")]
    Failed { why: String },
    #[error("there is no such body")]
    NoSuchBody,
    /// It may have been done or not.
    #[error("the body did not answer: {why}")]
    NoAnswer { why: String },
    /// The content to be written could not be had.
    #[error("the content ended early: {why}")]
    NoContent { why: String },
}

/// Content that is in memory already.
pub struct Whole(Option<Vec<u8>>);

impl Whole {
    #[must_use]
    pub fn new(content: Vec<u8>) -> Self {
        Self(Some(content))
    }
}

#[async_trait]
impl Pieces for Whole {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, FileError> {
        Ok(self.0.take())
    }
}
