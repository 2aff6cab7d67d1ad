//! Decompresses the input, counts and hashes the result, and enforces the size limits.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;
use sha2::{Digest as _, Sha256};

use super::refusal::Refusal;
use crate::{Digest, Limits};

/// Default window limit of the reference zstd decoder.
const ZSTD_WINDOW_LOG: u32 = 27;
const BUFFER: usize = 128 * 1024;
const LONGEST_MAGIC: u64 = 6;

pub(super) struct DecodedArchive<'a> {
    decoder: Box<dyn Read + 'a>,
    raw: Rc<Cell<u64>>,
    hasher: Sha256,
    bytes: u64,
    limits: &'a Limits,
}

struct CountingReader<R> {
    inner: R,
    count: Rc<Cell<u64>>,
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.count.set(self.count.get() + read as u64);
        Ok(read)
    }
}

impl<'a> DecodedArchive<'a> {
    pub(super) fn new(input: impl Read + 'a, limits: &'a Limits) -> Result<Self, Refusal> {
        let raw = Rc::new(Cell::new(0));
        let mut input = BufReader::with_capacity(BUFFER, CountingReader { inner: input, count: raw.clone() });
        let mut magic = Vec::new();
        input.by_ref().take(LONGEST_MAGIC).read_to_end(&mut magic).map_err(|error| damaged(&error))?;
        let kind = Compression::of(&magic)?;
        let whole = Cursor::new(magic).chain(input);
        Ok(Self { decoder: kind.decoder(whole)?, raw, hasher: Sha256::new(), bytes: 0, limits })
    }

    /// Reads to the end and returns the digest and size of the decompressed archive.
    pub(super) fn finish(mut self) -> Result<(Digest, u64), Refusal> {
        io::copy(&mut self, &mut io::sink()).map_err(refusal_from)?;
        Ok((Digest::finish(self.hasher), self.bytes))
    }

    fn check_limits(&self) -> Result<(), Refusal> {
        let limits = self.limits;
        if self.bytes > limits.total_bytes {
            return Err(Refusal::TooManyBytes { most: limits.total_bytes });
        }
        let allowed = self.raw.get().saturating_mul(limits.compression_ratio).max(limits.ratio_begins_bytes);
        if self.bytes > allowed {
            return Err(Refusal::Bomb { most: limits.compression_ratio });
        }
        Ok(())
    }
}

impl Read for DecodedArchive<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match self.decoder.read(buffer) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
            Err(error) => return Err(io::Error::other(damaged(&error))),
        };
        self.hasher.update(&buffer[..read]);
        self.bytes += read as u64;
        self.check_limits().map_err(io::Error::other)?;
        Ok(read)
    }
}

/// Extracts the refusal that a read of this module wrapped in an `io::Error`.
pub(super) fn refusal_from(error: io::Error) -> Refusal {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return Refusal::CutShort;
    }
    match error.downcast::<Refusal>() {
        Ok(refusal) => refusal,
        Err(error) => damaged(&error),
    }
}

fn damaged(error: &io::Error) -> Refusal {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Refusal::CutShort,
        _ => Refusal::BadCompression { why: error.to_string() },
    }
}

enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    fn of(magic: &[u8]) -> Result<Self, Refusal> {
        let unknown = |with: &str| Err(Refusal::UnknownCompression { with: with.to_owned() });
        match magic {
            [0x1f, 0x8b, ..] => Ok(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Ok(Self::Zstd),
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41] => unknown("bzip2"),
            [0xfd, b'7', b'z', b'X', b'Z', 0] => unknown("xz"),
            _ => Ok(Self::None),
        }
    }

    fn decoder<'a>(self, input: impl BufRead + 'a) -> Result<Box<dyn Read + 'a>, Refusal> {
        match self {
            Self::None => Ok(Box::new(input)),
            Self::Gzip => Ok(Box::new(MultiGzDecoder::new(input))),
            Self::Zstd => {
                let decoder = zstd::Decoder::with_buffer(input).and_then(|mut decoder| {
                    decoder.window_log_max(ZSTD_WINDOW_LOG)?;
                    Ok(decoder)
                });
                Ok(Box::new(decoder.map_err(|error| damaged(&error))?))
            }
        }
    }
}
