//! Reads a local file as a content stream.

use std::fs::File;
use std::io::Read;

use async_trait::async_trait;
use pinfold_provider::{ContentStream, FileError};

/// Bytes read at a time.
const CHUNK_SIZE: usize = 256 * 1024;

/// A local file as a stream of chunks.
pub(crate) struct FileStream(pub(crate) File);

#[async_trait]
impl ContentStream for FileStream {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, FileError> {
        let mut chunk = vec![0; CHUNK_SIZE];
        let read =
            self.0.read(&mut chunk).map_err(|error| FileError::NoContent { why: error.to_string() })?;
        chunk.truncate(read);
        Ok((read > 0).then_some(chunk))
    }
}
