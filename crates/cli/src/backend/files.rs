//! File requests to the backend. Paths are absolute in the sandbox and are bytes, not UTF-8 text.

use async_trait::async_trait;
use pinfold_api::{FileEntry, FileListing, FileWritten};
use pinfold_client::{ClientError, FileContent, Upload, upload};
use pinfold_provider::{ContentStream, FileError};

use super::requests::{Reply, dispatch, sandbox_id};
use super::{Backend, BackendError};

/// An open file in a sandbox: its content, and its mode if known.
pub(crate) struct FileReader {
    pub(crate) mode: Option<u32>,
    pub(crate) chunks: Box<dyn ContentStream>,
}

impl Backend {
    /// Reads metadata without following a symbolic link.
    pub(crate) async fn stat_file(&self, id: &str, path: &[u8]) -> Reply<FileEntry> {
        dispatch!(self, server => server.client.stat_file(id, path), local => async {
            local.service.stat_file(sandbox_id(id)?, path).await
        })
    }

    pub(crate) async fn list_files(&self, id: &str, path: &[u8], most: usize) -> Reply<FileListing> {
        dispatch!(self, server => server.client.list_files(id, path, most), local => async {
            local.service.list_files(sandbox_id(id)?, path, most).await
        })
    }

    pub(crate) async fn read_file(&self, id: &str, path: &[u8]) -> Reply<FileReader> {
        match self {
            Self::Server(server) => {
                let content = server.client.read_file(id, path).await.map_err(|error| server.error(error))?;
                Ok(FileReader { mode: content.mode, chunks: Box::new(Download(content)) })
            }
            Self::Local(local) => {
                let content = local.service.read_file(sandbox_id(id)?, path, 0, u64::MAX).await?;
                Ok(FileReader { mode: Some(content.metadata.mode), chunks: content.pieces })
            }
        }
    }

    /// Writes a file atomically and returns its size.
    pub(crate) async fn write_file(
        &self,
        id: &str,
        path: &[u8],
        mode: Option<u32>,
        content: &mut dyn ContentStream,
    ) -> anyhow::Result<u64> {
        match self {
            Self::Server(server) => {
                let write = |content| server.client.write_file(id, path, mode, content);
                let written = upload_stream(content, write).await?;
                Ok(written.map_err(|error| server.error(error))?.bytes)
            }
            Self::Local(local) => {
                let id = sandbox_id(id).map_err(BackendError::from)?;
                let written = local.service.write_file(id, path, mode, content).await;
                Ok(written.map_err(BackendError::from)?.bytes)
            }
        }
    }

    /// Creates a directory. An existing directory is not an error.
    pub(crate) async fn make_directory(
        &self,
        id: &str,
        path: &[u8],
        mode: Option<u32>,
    ) -> Reply<FileWritten> {
        dispatch!(self, server => server.client.make_directory(id, path, mode), local => async {
            local.service.make_directory(sandbox_id(id)?, path, mode).await
        })
    }

    /// Creates a symbolic link, replacing anything but a directory.
    pub(crate) async fn make_link(&self, id: &str, path: &[u8], target: &[u8]) -> Reply<FileWritten> {
        dispatch!(self, server => server.client.make_link(id, path, target), local => async {
            local.service.make_link(sandbox_id(id)?, path, target).await
        })
    }
}

/// Streams `content` as the body of a request. The outer error is a failed read of the content, the inner one a failed
/// request.
pub(crate) async fn upload_stream<T>(
    content: &mut dyn ContentStream,
    send: impl AsyncFnOnce(Upload) -> Result<T, ClientError>,
) -> Result<Result<T, ClientError>, FileError> {
    let (uploader, upload) = upload();
    let failed = async move {
        loop {
            match content.next().await {
                Ok(Some(chunk)) => {
                    if !uploader.send(chunk).await {
                        // The server stopped reading; its answer says why.
                        break;
                    }
                }
                Ok(None) => {
                    uploader.finish().await;
                    break;
                }
                Err(error) => return error,
            }
        }
        std::future::pending().await
    };
    tokio::select! {
        answer = send(upload) => Ok(answer),
        error = failed => Err(error),
    }
}

/// The content of a file as the server sends it.
struct Download(FileContent);

#[async_trait]
impl ContentStream for Download {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, FileError> {
        self.0.next().await.map_err(|error| FileError::NoAnswer { why: error.to_string() })
    }
}
