//! What an execution writes, in a file outside the sandbox's reach: numbered pieces with their time and stream.
//! The keeper appends; whoever reads follows at its own pace, also after the end.

use std::fs::File;
use std::io::{self, Read, Write};

/// One piece of output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    pub seq: u64,
    pub at_ms: i64,
    pub stream: Stream,
    pub bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

const HEADER: usize = 21;
const LONGEST: usize = 1 << 20;

pub(crate) struct Writer {
    file: File,
    next: u64,
    pub(crate) written: u64,
}

impl Writer {
    pub(crate) fn new(file: File) -> Self {
        Self { file, next: 1, written: 0 }
    }

    /// In one write, so that a reader sees a piece whole or not at all.
    pub(crate) fn append(&mut self, stream: Stream, at_ms: i64, bytes: &[u8]) -> io::Result<()> {
        let mut piece = Vec::with_capacity(HEADER + bytes.len());
        piece.extend(u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?.to_le_bytes());
        piece.push(match stream {
            Stream::Stdout => 1,
            Stream::Stderr => 2,
        });
        piece.extend(self.next.to_le_bytes());
        piece.extend(at_ms.to_le_bytes());
        piece.extend(bytes);
        self.file.write_all(&piece)?;
        self.next += 1;
        self.written += bytes.len() as u64;
        Ok(())
    }
}

/// Reads from where it left off.
pub struct Reader {
    file: File,
    arrived: Vec<u8>,
}

impl Reader {
    #[must_use]
    pub fn new(file: File) -> Self {
        Self { file, arrived: Vec::new() }
    }

    /// The next piece that is there whole, or none for now.
    pub fn piece(&mut self) -> io::Result<Option<Piece>> {
        loop {
            if let Some(piece) = self.take()? {
                return Ok(Some(piece));
            }
            let mut chunk = [0; 64 * 1024];
            match self.file.read(&mut chunk)? {
                0 => return Ok(None),
                read => self.arrived.extend(&chunk[..read]),
            }
        }
    }

    fn take(&mut self) -> io::Result<Option<Piece>> {
        let Some((header, rest)) = self.arrived.split_first_chunk::<HEADER>() else { return Ok(None) };
        let (length, stream, seq, at) = (&header[..4], header[4], &header[5..13], &header[13..]);
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |sum, byte| (sum << 8) | u64::from(*byte));
        let length = usize::try_from(number(length)).unwrap_or(usize::MAX);
        let stream = match stream {
            1 => Stream::Stdout,
            2 => Stream::Stderr,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        if length > LONGEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let Some(bytes) = rest.get(..length) else { return Ok(None) };
        let piece =
            Piece { seq: number(seq), at_ms: number(at).cast_signed(), stream, bytes: bytes.to_vec() };
        self.arrived.drain(..HEADER + length);
        Ok(Some(piece))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_back_in_order_and_only_when_it_is_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut writer = Writer::new(File::create(&path).unwrap());
        let mut reader = Reader::new(File::open(&path).unwrap());

        writer.append(Stream::Stdout, 7, b"one").unwrap();
        writer.append(Stream::Stderr, 8, b"").unwrap();
        writer.file.write_all(&[9, 0]).unwrap();

        let one = Piece { seq: 1, at_ms: 7, stream: Stream::Stdout, bytes: b"one".to_vec() };
        let two = Piece { seq: 2, at_ms: 8, stream: Stream::Stderr, bytes: Vec::new() };
        assert_eq!(reader.piece().unwrap(), Some(one));
        assert_eq!(reader.piece().unwrap(), Some(two));
        assert_eq!(reader.piece().unwrap(), None);
    }
}
