//! Standard output, byte by byte. Whoever reads it may have seen enough and be gone before the end, as `head` is: that
//! is no failure, and neither what was asked for nor the exit code changes with it. What is for people alone is printed
//! by `anstream`, which sees it likewise; it leaves out what terminals obey, and so is not for documents.

use std::io::{self, Write};

use anyhow::Context;

/// Whether anybody reads on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    There,
    Gone,
}

pub(crate) fn print(bytes: &[u8]) -> anyhow::Result<Reader> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(Reader::There),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(error).context("could not write to standard output"),
    }
}
