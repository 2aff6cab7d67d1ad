//! Writes bytes to standard output. A reader that closes the pipe early, such as `head`, is not an error and does not
//! change the exit code. Text for terminals is printed through `anstream`, which behaves the same but strips escape
//! sequences, so it is not used for JSON documents.

use std::io::{self, Write};

use anyhow::Context;

/// Whether the reader of standard output is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    Present,
    Gone,
}

pub(crate) fn print(bytes: &[u8]) -> anyhow::Result<Reader> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(Reader::Present),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(error).context("could not write to standard output"),
    }
}
