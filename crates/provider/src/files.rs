//! File access inside an instance, as processes inside see it.

use async_trait::async_trait;

use crate::InstanceId;

/// Operations on files in an instance. Paths are absolute or relative to the working directory of the instance.
/// No path leads out of it, and no kind of file (pipe, link, endless tree) can block more than its own request.
#[async_trait]
pub trait Files: Send + Sync {
    /// Does not follow a symbolic link.
    async fn stat(&self, instance: InstanceId, path: &[u8]) -> Result<Metadata, FileError>;

    /// At most `most` entries, in no particular order.
    async fn list(&self, instance: InstanceId, path: &[u8], most: usize) -> Result<Listing, FileError>;

    /// At most `most` bytes from offset `from`. Follows symbolic links.
    async fn read(
        &self,
        instance: InstanceId,
        path: &[u8],
        from: u64,
        most: u64,
    ) -> Result<FileContent, FileError>;

    /// Replaces the file atomically, also if it is a symbolic link. Without a mode an existing file keeps its
    /// own.
    async fn write(
        &self,
        instance: InstanceId,
        path: &[u8],
        mode: Option<u32>,
        content: &mut dyn ContentStream,
    ) -> Result<u64, FileError>;

    /// With `parents`, an existing directory is not an error.
    async fn make_directory(&self, instance: InstanceId, path: &[u8], parents: bool)
    -> Result<(), FileError>;

    /// Does not follow a symbolic link.
    async fn set_mode(&self, instance: InstanceId, path: &[u8], mode: u32) -> Result<(), FileError>;

    async fn make_link(&self, instance: InstanceId, path: &[u8], target: &[u8]) -> Result<(), FileError>;

    async fn rename(
        &self,
        instance: InstanceId,
        from: &[u8],
        to: &[u8],
        replace: bool,
    ) -> Result<(), FileError>;

    /// Returns the number of files and directories removed.
    async fn remove(&self, instance: InstanceId, path: &[u8], recursive: bool) -> Result<u64, FileError>;

    /// Watches a directory, not its subdirectories, until the result is dropped.
    async fn watch(&self, instance: InstanceId, path: &[u8]) -> Result<Box<dyn FileChanges>, FileError>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    pub kind: FileKind,
    pub size: u64,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub modified_ms: i64,
    /// Target of a symbolic link.
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
pub struct DirectoryEntry {
    pub name: Vec<u8>,
    pub metadata: Metadata,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    pub entries: Vec<DirectoryEntry>,
    /// More entries exist than were requested.
    pub more: bool,
}

pub struct FileContent {
    pub metadata: Metadata,
    pub pieces: Box<dyn ContentStream>,
}

/// File content in chunks.
#[async_trait]
pub trait ContentStream: Send {
    /// None at the end.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, FileError>;
}

#[async_trait]
pub trait FileChanges: Send {
    /// Waits for changes. None: the watched directory is gone.
    async fn next(&mut self) -> Result<Option<Vec<FileChange>>, FileError>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    pub kind: ChangeKind,
    /// Name in the watched directory; empty for the directory itself.
    pub name: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    Appeared,
    Changed,
    Vanished,
    /// Changes were lost: list the directory again.
    Missed,
    /// The watched directory is gone.
    Gone,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    #[error("invalid path: {why}")]
    BadPath { why: String },
    #[error("not found: {why}")]
    NotFound { why: String },
    #[error("not a directory: {why}")]
    NotADirectory { why: String },
    #[error("is a directory: {why}")]
    IsADirectory { why: String },
    /// A pipe, a socket or a device, which might block.
    #[error("not a regular file: {why}")]
    NotAFile { why: String },
    #[error("exists already: {why}")]
    Exists { why: String },
    #[error("not empty: {why}")]
    NotEmpty { why: String },
    /// Part of the instance itself, such as `/proc`.
    #[error("in use: {why}")]
    InUse { why: String },
    #[error("not allowed: {why}")]
    Denied { why: String },
    #[error("no space left: {why}")]
    Full { why: String },
    #[error("too many concurrent requests: {why}")]
    Busy { why: String },
    #[error("failed: {why}")]
    Failed { why: String },
    #[error("no such instance")]
    NoSuchInstance,
    /// The operation may have been done.
    #[error("the instance did not answer: {why}")]
    NoAnswer { why: String },
    /// The content to be written could not be read.
    #[error("reading the content failed: {why}")]
    NoContent { why: String },
}

/// Content already in memory.
pub struct InMemoryContent(Option<Vec<u8>>);

impl InMemoryContent {
    #[must_use]
    pub fn new(content: Vec<u8>) -> Self {
        Self(Some(content))
    }
}

#[async_trait]
impl ContentStream for InMemoryContent {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, FileError> {
        Ok(self.0.take())
    }
}
