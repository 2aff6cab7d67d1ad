//! Content on its way to the server, piece by piece. What is given up half-way never looks as if it were whole.

use std::pin::Pin;
use std::task::{Context, Poll};

use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Frame};
use tokio::sync::mpsc;

use crate::client::Content;
use crate::error::Source;

/// Pieces that wait to be sent.
const AHEAD: usize = 4;

/// What is being sent.
pub struct Upload(mpsc::Receiver<Piece>);

/// Whoever has what is to be sent. Dropped before its end, the request comes to nothing.
pub struct Uploader(mpsc::Sender<Piece>);

enum Piece {
    Some(Bytes),
    End,
}

/// Both ends of one upload.
#[must_use]
pub fn upload() -> (Uploader, Upload) {
    let (sender, receiver) = mpsc::channel(AHEAD);
    (Uploader(sender), Upload(receiver))
}

impl Uploader {
    /// Whether anybody still wants it.
    pub async fn send(&self, piece: Vec<u8>) -> bool {
        piece.is_empty() || self.0.send(Piece::Some(piece.into())).await.is_ok()
    }

    pub async fn finish(self) {
        // Who does not want the end has answered already.
        let _ = self.0.send(Piece::End).await;
    }
}

impl Upload {
    pub(crate) fn into_content(self) -> Content {
        self.boxed_unsync()
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = Source;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Source>>> {
        self.0.poll_recv(context).map(|piece| match piece {
            Some(Piece::Some(bytes)) => Some(Ok(Frame::data(bytes))),
            Some(Piece::End) => None,
            None => Some(Err("what was to be sent was given up".into())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_given_up_is_not_taken_for_the_whole() {
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
