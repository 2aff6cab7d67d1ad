//! Reads the log of an execution, from its beginning or from the oldest remaining chunk.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags, open};

use super::{
    CHUNK_HEADER, LogPosition, MAX_CHUNK_BYTES, OutputChunk, OutputEntry, OutputGap, OutputStream,
    SEGMENT_HEADER, segment_name,
};

/// Reads from where it left off. The keeper may delete segments at any time; an open segment is read to its end.
pub struct LogReader {
    directory: PathBuf,
    execution: String,
    segment: Option<Segment>,
    next_seq: u64,
    bytes_read: u64,
}

struct Segment {
    number: u64,
    file: File,
    buffered: Vec<u8>,
    /// How many of the buffered bytes were consumed.
    consumed: usize,
    /// Whether its header was consumed.
    header_read: bool,
}

impl LogReader {
    /// Reads from the beginning. The log need not exist yet.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>, execution: &str) -> Self {
        let (directory, execution) = (directory.into(), execution.to_owned());
        Self { directory, execution, segment: None, next_seq: 1, bytes_read: 0 }
    }

    /// Continues after chunk `seq`, with `bytes_read` bytes read so far.
    #[must_use]
    pub fn after(directory: impl Into<PathBuf>, execution: &str, seq: u64, bytes_read: u64) -> Self {
        Self { next_seq: seq.saturating_add(1), bytes_read, ..Self::new(directory, execution) }
    }

    /// The next complete chunk or the gap before it. None: nothing more for now.
    #[expect(clippy::should_implement_trait, reason = "None is not the end: more may come")]
    pub fn next(&mut self) -> io::Result<Option<OutputEntry>> {
        loop {
            let Some(segment) = &mut self.segment else {
                match self.open_first()? {
                    Some(segment) => self.segment = Some(segment),
                    None => return Ok(None),
                }
                continue;
            };
            // Check before the last read: a segment with a successor is complete.
            let complete = segment.is_complete(&self.directory, &self.execution)?;
            if let Some(entry) = self.take()? {
                return Ok(Some(entry));
            }
            match (complete, &self.segment) {
                (true, Some(Segment { number, .. })) => match self.open_from(number + 1)? {
                    Some(segment) => self.segment = Some(segment),
                    None => return Ok(None),
                },
                _ => return Ok(None),
            }
        }
    }

    /// Where the writer of a new instance continues, once the previous writer is gone. A partial chunk that it may have
    /// left is ignored.
    pub fn next_writer_position(mut self) -> io::Result<LogPosition> {
        while self.next()?.is_some() {}
        let left = self.numbers()?;
        let Some((oldest, last)) = left.iter().min().zip(left.iter().max()) else {
            return Ok(LogPosition::default());
        };
        let (oldest, segment) = (*oldest, last.saturating_add(1));
        Ok(LogPosition { oldest, segment, seq: self.next_seq, bytes: self.bytes_read })
    }

    /// Opens the segment with the next chunk, or the oldest remaining one.
    fn open_first(&self) -> io::Result<Option<Segment>> {
        if self.next_seq == 1 {
            return self.open_from(0);
        }
        let mut numbers = self.numbers()?;
        numbers.sort_unstable();
        let mut oldest = None;
        for number in numbers.into_iter().rev() {
            let Some(mut segment) = self.open(number)? else { continue };
            match segment.first_seq()? {
                Some(first) if first <= self.next_seq => return Ok(Some(segment)),
                Some(_) => oldest = Some(segment),
                // Its header is not written yet.
                None => {}
            }
        }
        Ok(oldest)
    }

    /// Opens the segment of this number, or the first remaining one after it.
    fn open_from(&self, number: u64) -> io::Result<Option<Segment>> {
        if let Some(segment) = self.open(number)? {
            return Ok(Some(segment));
        }
        match self.numbers()?.into_iter().filter(|left| *left >= number).min() {
            Some(left) => self.open(left),
            None => Ok(None),
        }
    }

    fn open(&self, number: u64) -> io::Result<Option<Segment>> {
        let path = self.directory.join(segment_name(&self.execution, number));
        // Never follow a symbolic link and never block on a FIFO.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        match open(path, flags, Mode::empty()) {
            Ok(file) => {
                let file = File::from(file);
                Ok(Some(Segment { number, file, buffered: Vec::new(), consumed: 0, header_read: false }))
            }
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Numbers of the remaining segments.
    fn numbers(&self) -> io::Result<Vec<u64>> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut numbers = Vec::new();
        for entry in entries {
            let name = entry?.file_name().into_string().unwrap_or_default();
            let rest = name.strip_prefix(&self.execution).and_then(|rest| rest.strip_prefix('.'));
            let number = rest.and_then(|rest| rest.strip_suffix(".log"));
            numbers.extend(number.and_then(|number| number.parse::<u64>().ok()));
        }
        Ok(numbers)
    }

    fn take(&mut self) -> io::Result<Option<OutputEntry>> {
        let Some(segment) = &mut self.segment else { return Ok(None) };
        loop {
            if !segment.header_read {
                if let Some((first_seq, bytes_before)) = segment.take_header() {
                    let (from_seq, read) = (self.next_seq, self.bytes_read);
                    (self.next_seq, self.bytes_read) = (first_seq.max(from_seq), bytes_before);
                    if first_seq > from_seq {
                        let bytes = bytes_before.saturating_sub(read);
                        return Ok(Some(OutputEntry::Gap(OutputGap {
                            from_seq,
                            to_seq: first_seq - 1,
                            bytes,
                        })));
                    }
                    continue;
                }
            } else if let Some(chunk) = segment.take_chunk()? {
                self.bytes_read += chunk.bytes.len() as u64;
                if chunk.seq < self.next_seq {
                    continue;
                }
                self.next_seq = chunk.seq.saturating_add(1);
                return Ok(Some(OutputEntry::Chunk(chunk)));
            }
            if !segment.read_more()? {
                return Ok(None);
            }
        }
    }
}

impl Segment {
    /// Whether the writer is done with it: a later segment exists, or this one was deleted.
    fn is_complete(&self, directory: &std::path::Path, execution: &str) -> io::Result<bool> {
        let next = directory.join(segment_name(execution, self.number + 1));
        Ok(next.try_exists()? || self.file.metadata()?.nlink() == 0)
    }

    fn read_more(&mut self) -> io::Result<bool> {
        let mut chunk = [0; 64 * 1024];
        let read = self.file.read(&mut chunk)?;
        self.buffered.drain(..self.consumed);
        self.consumed = 0;
        self.buffered.extend(&chunk[..read]);
        Ok(read > 0)
    }

    /// Number of its first chunk. None: not written yet.
    fn first_seq(&mut self) -> io::Result<Option<u64>> {
        while self.header().is_none() {
            if !self.read_more()? {
                return Ok(None);
            }
        }
        Ok(self.header().map(|(first_seq, _)| first_seq))
    }

    fn header(&self) -> Option<(u64, u64)> {
        let header = self.buffered.first_chunk::<SEGMENT_HEADER>()?;
        Some((number(&header[..8]), number(&header[8..])))
    }

    fn take_header(&mut self) -> Option<(u64, u64)> {
        let parts = self.header()?;
        self.consumed = SEGMENT_HEADER;
        self.header_read = true;
        Some(parts)
    }

    fn take_chunk(&mut self) -> io::Result<Option<OutputChunk>> {
        let buffered = &self.buffered[self.consumed..];
        let Some((header, rest)) = buffered.split_first_chunk::<CHUNK_HEADER>() else { return Ok(None) };
        let (length, stream, seq, at) = (&header[..4], header[4], &header[5..13], &header[13..]);
        let length = usize::try_from(number(length)).unwrap_or(usize::MAX);
        let stream = match stream {
            1 => OutputStream::Stdout,
            2 => OutputStream::Stderr,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        if length > MAX_CHUNK_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let Some(bytes) = rest.get(..length) else { return Ok(None) };
        let chunk =
            OutputChunk { seq: number(seq), at_ms: number(at).cast_signed(), stream, bytes: bytes.to_vec() };
        self.consumed += CHUNK_HEADER + length;
        Ok(Some(chunk))
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
}
