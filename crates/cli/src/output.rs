//! What a command in a sandbox writes, on its way to whoever waits for it.

use std::io::{self, Write};

use pinfold_keeper::log::{Entry, Gap, Piece, Reader, Stream};

/// Follows an execution's output from its beginning.
pub(crate) struct Follower {
    reader: Reader,
    sink: Sink,
    /// When the first piece was written, by the wall clock.
    pub(crate) first_at_ms: Option<i64>,
}

/// Passed on at once, or kept for a document at the end.
pub(crate) enum Sink {
    Terminal,
    Kept { stdout: Vec<u8>, stderr: Vec<u8> },
}

impl Follower {
    pub(crate) fn new(reader: Reader, sink: Sink) -> Self {
        Self { reader, sink, first_at_ms: None }
    }

    /// Takes what is there now, and says whether there was something.
    pub(crate) fn catch_up(&mut self) -> io::Result<bool> {
        let mut came = false;
        while let Some(entry) = self.reader.next()? {
            match entry {
                Entry::Piece(piece) => {
                    self.first_at_ms.get_or_insert(piece.at_ms);
                    self.sink.take(&piece)?;
                }
                Entry::Gap(Gap { bytes, .. }) => eprintln!("pinfold: {bytes} bytes of output were not kept"),
            }
            came = true;
        }
        Ok(came)
    }

    pub(crate) fn into_sink(self) -> Sink {
        self.sink
    }
}

impl Sink {
    pub(crate) fn of(json: bool) -> Self {
        if json { Self::Kept { stdout: Vec::new(), stderr: Vec::new() } } else { Self::Terminal }
    }

    fn take(&mut self, piece: &Piece) -> io::Result<()> {
        match (self, piece.stream) {
            (Self::Terminal, Stream::Stdout) => pass_on(&mut io::stdout(), &piece.bytes),
            (Self::Terminal, Stream::Stderr) => pass_on(&mut io::stderr(), &piece.bytes),
            (Self::Kept { stdout, .. }, Stream::Stdout) => stdout.write_all(&piece.bytes),
            (Self::Kept { stderr, .. }, Stream::Stderr) => stderr.write_all(&piece.bytes),
        }
    }
}

fn pass_on(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes)?;
    to.flush()
}
