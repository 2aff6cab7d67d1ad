//! Files inside a sandbox, by either way. Paths are bytes from the sandbox's root.

use async_trait::async_trait;
use pinfold_api::{FileEntry, FileListing, FileWritten};
use pinfold_client::{ClientError, FileContent, Upload, upload};
use pinfold_provider::{FileError, Pieces};

use super::asked::{Asked, ask, sandbox_id};
use super::{Plane, PlaneError};

/// What a file holds, and its permissions where they are known.
pub(crate) struct Held {
    pub(crate) mode: Option<u32>,
    pub(crate) pieces: Box<dyn Pieces>,
}

impl Plane {
    /// Of a link itself, not of what it leads to.
    pub(crate) async fn stat_file(&self, id: &str, path: &[u8]) -> Asked<FileEntry> {
        ask!(self, server => server.client.stat_file(id, path), here => async {
            here.service.stat_file(sandbox_id(id)?, path).await
        })
    }

    pub(crate) async fn list_files(&self, id: &str, path: &[u8], most: usize) -> Asked<FileListing> {
        ask!(self, server => server.client.list_files(id, path, most), here => async {
            here.service.list_files(sandbox_id(id)?, path, most).await
        })
    }

    pub(crate) async fn read_file(&self, id: &str, path: &[u8]) -> Asked<Held> {
        match self {
            Self::Server(server) => {
                let content = server.client.read_file(id, path).await.map_err(|error| server.judge(error))?;
                Ok(Held { mode: content.mode, pieces: Box::new(Arriving(content)) })
            }
            Self::Here(here) => {
                let content = here.service.read_file(sandbox_id(id)?, path, 0, u64::MAX).await?;
                Ok(Held { mode: Some(content.metadata.mode), pieces: content.pieces })
            }
        }
    }

    /// It appears whole or not at all. Says how many bytes it has.
    pub(crate) async fn write_file(
        &self,
        id: &str,
        path: &[u8],
        mode: Option<u32>,
        content: &mut dyn Pieces,
    ) -> anyhow::Result<u64> {
        match self {
            Self::Server(server) => {
                let write = |content| server.client.write_file(id, path, mode, content);
                let written = send_pieces(content, write).await?;
                Ok(written.map_err(|error| server.judge(error))?.bytes)
            }
            Self::Here(here) => {
                let id = sandbox_id(id).map_err(PlaneError::from)?;
                let written = here.service.write_file(id, path, mode, content).await;
                Ok(written.map_err(PlaneError::from)?.bytes)
            }
        }
    }

    /// One that is there already is as good as one that is made.
    pub(crate) async fn make_directory(
        &self,
        id: &str,
        path: &[u8],
        mode: Option<u32>,
    ) -> Asked<FileWritten> {
        ask!(self, server => server.client.make_directory(id, path, mode), here => async {
            here.service.make_directory(sandbox_id(id)?, path, mode).await
        })
    }

    /// What is no directory makes way for it.
    pub(crate) async fn make_link(&self, id: &str, path: &[u8], target: &[u8]) -> Asked<FileWritten> {
        ask!(self, server => server.client.make_link(id, path, target), here => async {
            here.service.make_link(sandbox_id(id)?, path, target).await
        })
    }
}

/// Sends what there is along with a request. What cannot be had any more is the error; else the answer is.
pub(crate) async fn send_pieces<T>(
    content: &mut dyn Pieces,
    ask: impl AsyncFnOnce(Upload) -> Result<T, ClientError>,
) -> Result<Result<T, ClientError>, FileError> {
    let (uploader, upload) = upload();
    let failed = async move {
        loop {
            match content.next().await {
                Ok(Some(piece)) => {
                    if !uploader.send(piece).await {
                        // It is not wanted any more: the answer says why.
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
        answer = ask(upload) => Ok(answer),
        error = failed => Err(error),
    }
}

struct Arriving(FileContent);

#[async_trait]
impl Pieces for Arriving {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, FileError> {
        self.0.next().await.map_err(|error| FileError::NoAnswer { why: error.to_string() })
    }
}
