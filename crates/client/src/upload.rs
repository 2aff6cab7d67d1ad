//! Streamed uploads. An upload that is dropped half-way fails the request, so that the server never takes it for complete.

use std::pin::Pin;
use std::task::{Context, Poll};

use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Frame};
use tokio::sync::mpsc;

use crate::client::Content;
use crate::error::BoxedError;

/// Chunks buffered between the sender and the request.
const CHUNKS_BUFFERED: usize = 4;

/// The receiving half, which becomes the request body.
pub struct Upload(mpsc::Receiver<Chunk>);

/// The sending half. Dropping it before [`Uploader::finish`] fails the request.
pub struct Uploader(mpsc::Sender<Chunk>);

enum Chunk {
    Some(Bytes),
    End,
}

/// Creates both halves of an upload.
#[must_use]
pub fn upload() -> (Uploader, Upload) {
    let (sender, receiver) = mpsc::channel(CHUNKS_BUFFERED);
    (Uploader(sender), Upload(receiver))
}

impl Uploader {
    /// Sends one chunk. Returns whether the request still wants more.
    pub async fn send(&self, chunk: Vec<u8>) -> bool {
        chunk.is_empty() || self.0.send(Chunk::Some(chunk.into())).await.is_ok()
    }

    pub async fn finish(self) {
        // An error means that the server has already answered.
        let _ = self.0.send(Chunk::End).await;
    }
}

impl Upload {
    pub(crate) fn into_content(self) -> Content {
        self.boxed_unsync()
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = BoxedError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxedError>>> {
        self.0.poll_recv(context).map(|chunk| match chunk {
            Some(Chunk::Some(bytes)) => Some(Ok(Frame::data(bytes))),
            Some(Chunk::End) => None,
            None => Some(Err("the upload was abandoned before its end".into())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn abandoned_upload_fails_instead_of_looking_complete() {
        let (uploader, upload) = upload();
        let (other, whole) = super::upload();

        assert!(uploader.send(b"half".to_vec()).await);
        drop(uploader);
        assert!(other.send(b"all".to_vec()).await);
        other.finish().await;

        assert!(upload.collect().await.is_err());
        assert_eq!(whole.collect().await.unwrap().to_bytes(), "all");
    }
}
