//! One file request on its own connection, failed when no byte moves for a while.

use std::io;
use std::time::Duration;

use pinfold_keeper_wire::Request;
use pinfold_keeper_wire::files::{FileAnswer, FileRequest, chunk_length};
use pinfold_provider::FileError;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::translate::refusal;
use crate::control::{self, ControlError};
use crate::paths::InstancePaths;

/// Maximum time without progress.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of one piece.
const MAX_PIECE: usize = 256 * 1024;

pub(super) struct Connection(UnixStream);

impl Connection {
    pub(super) async fn open(paths: &InstancePaths, request: FileRequest) -> Result<Self, FileError> {
        let mut stream = control::connect(paths).await.map_err(|error| match error {
            ControlError::NotListening(_) => FileError::NoSuchInstance,
            error @ ControlError::NoAnswer(_) => FileError::NoAnswer { why: error.to_string() },
        })?;
        with_stall_timeout(control::send(&mut stream, &Request::Files(request))).await?;
        Ok(Self(stream))
    }

    pub(super) async fn answer(&mut self) -> Result<FileAnswer, FileError> {
        let answer = with_stall_timeout(control::receive(&mut self.0)).await?;
        refusal(answer)
    }

    /// Waits without a time limit.
    pub(super) async fn answer_without_timeout(&mut self) -> Result<FileAnswer, FileError> {
        let answer = control::receive(&mut self.0).await.map_err(no_answer)?;
        refusal(answer)
    }

    pub(super) async fn done(&mut self) -> Result<u64, FileError> {
        match self.answer().await? {
            FileAnswer::Done { count, .. } => Ok(count),
            other => Err(super::unexpected(&other)),
        }
    }

    pub(super) async fn send_piece(&mut self, content: &[u8]) -> Result<(), FileError> {
        for piece in content.chunks(MAX_PIECE) {
            self.send_frame(piece).await?;
        }
        Ok(())
    }

    pub(super) async fn end_pieces(&mut self) -> Result<(), FileError> {
        self.send_frame(&[]).await
    }

    async fn send_frame(&mut self, piece: &[u8]) -> Result<(), FileError> {
        let length = u32::try_from(piece.len()).unwrap_or(0);
        with_stall_timeout(async {
            self.0.write_all(&length.to_le_bytes()).await?;
            self.0.write_all(piece).await
        })
        .await
    }

    /// `None` at the end of the content.
    pub(super) async fn receive_piece(&mut self) -> Result<Option<Vec<u8>>, FileError> {
        with_stall_timeout(async {
            let mut length = [0; 4];
            self.0.read_exact(&mut length).await?;
            let mut piece = vec![0; chunk_length(length)?];
            self.0.read_exact(&mut piece).await?;
            Ok(if piece.is_empty() { None } else { Some(piece) })
        })
        .await
    }
}

async fn with_stall_timeout<T>(step: impl Future<Output = io::Result<T>>) -> Result<T, FileError> {
    match tokio::time::timeout(STALL_TIMEOUT, step).await {
        Ok(done) => done.map_err(no_answer),
        Err(_) => Err(FileError::NoAnswer { why: format!("no progress for {} s", STALL_TIMEOUT.as_secs()) }),
    }
}

fn no_answer(error: io::Error) -> FileError {
    FileError::NoAnswer { why: error.to_string() }
}
