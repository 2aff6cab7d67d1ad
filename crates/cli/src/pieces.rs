//! A file here, piece by piece.

use std::fs::File;
use std::io::Read;

use async_trait::async_trait;
use pinfold_provider::{FileError, Pieces};

/// What is read at a time.
const PIECE: usize = 256 * 1024;

pub(crate) struct OfFile(pub(crate) File);

#[async_trait]
impl Pieces for OfFile {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, FileError> {
        let mut piece = vec![0; PIECE];
        let read =
            self.0.read(&mut piece).map_err(|error| FileError::NoContent { why: error.to_string() })?;
        piece.truncate(read);
        Ok((read > 0).then_some(piece))
    }
}
