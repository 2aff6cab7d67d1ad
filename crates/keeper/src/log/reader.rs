//! Reading what an execution wrote, from its beginning or from the oldest that is left of it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags, open};

use super::{Entry, Gap, HEADER, LONGEST, Onset, Piece, SEGMENT_HEADER, Stream, segment_name};

/// Reads from where it left off. The keeper may take segments away at any time: what is open is read to its end.
pub struct Reader {
    directory: PathBuf,
    execution: String,
    segment: Option<Segment>,
    next_seq: u64,
    bytes_read: u64,
}

struct Segment {
    number: u64,
    file: File,
    arrived: Vec<u8>,
    /// How much of what arrived was taken.
    taken: usize,
    /// Whether its header was read.
    begun: bool,
}

impl Reader {
    /// Nothing need be there yet.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>, execution: &str) -> Self {
        let (directory, execution) = (directory.into(), execution.to_owned());
        Self { directory, execution, segment: None, next_seq: 1, bytes_read: 0 }
    }

    /// Goes on after a piece that was read before, with so many bytes of all that was written.
    #[must_use]
    pub fn after(directory: impl Into<PathBuf>, execution: &str, seq: u64, bytes_read: u64) -> Self {
        Self { next_seq: seq.saturating_add(1), bytes_read, ..Self::new(directory, execution) }
    }

    /// The next piece that is there whole or the gap before it, or none for now.
    #[expect(clippy::should_implement_trait, reason = "none is not the end: more may come")]
    pub fn next(&mut self) -> io::Result<Option<Entry>> {
        loop {
            let Some(segment) = &mut self.segment else {
                match self.open_first()? {
                    Some(segment) => self.segment = Some(segment),
                    None => return Ok(None),
                }
                continue;
            };
            // Before the last read: what is turned over is complete.
            let over = segment.is_over(&self.directory, &self.execution)?;
            if let Some(entry) = self.take()? {
                return Ok(Some(entry));
            }
            match (over, &self.segment) {
                (true, Some(Segment { number, .. })) => match self.open_from(number + 1)? {
                    Some(segment) => self.segment = Some(segment),
                    None => return Ok(None),
                },
                _ => return Ok(None),
            }
        }
    }

    /// Where the writer of another body goes on, once the one of these pieces writes no more. Half a piece that it may
    /// have left is nobody's.
    pub fn onset_of_the_next(mut self) -> io::Result<Onset> {
        while self.next()?.is_some() {}
        let left = self.numbers()?;
        let Some((oldest, last)) = left.iter().min().zip(left.iter().max()) else {
            return Ok(Onset::default());
        };
        let (oldest, segment) = (*oldest, last.saturating_add(1));
        Ok(Onset { oldest, segment, seq: self.next_seq, bytes: self.bytes_read })
    }

    /// The segment with the next piece, or the oldest that is left.
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
                // Nothing is in it yet.
                None => {}
            }
        }
        Ok(oldest)
    }

    /// The segment of this number, or the first after it that is left.
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
        // Whatever lies there, opening it leads nowhere else and waits for nobody.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        match open(path, flags, Mode::empty()) {
            Ok(file) => {
                let file = File::from(file);
                Ok(Some(Segment { number, file, arrived: Vec::new(), taken: 0, begun: false }))
            }
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Of the segments that are left.
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

    fn take(&mut self) -> io::Result<Option<Entry>> {
        let Some(segment) = &mut self.segment else { return Ok(None) };
        loop {
            if !segment.begun {
                if let Some((first_seq, bytes_before)) = segment.take_header() {
                    let (from_seq, read) = (self.next_seq, self.bytes_read);
                    (self.next_seq, self.bytes_read) = (first_seq.max(from_seq), bytes_before);
                    if first_seq > from_seq {
                        let bytes = bytes_before.saturating_sub(read);
                        return Ok(Some(Entry::Gap(Gap { from_seq, to_seq: first_seq - 1, bytes })));
                    }
                    continue;
                }
            } else if let Some(piece) = segment.take_piece()? {
                self.bytes_read += piece.bytes.len() as u64;
                if piece.seq < self.next_seq {
                    continue;
                }
                self.next_seq = piece.seq.saturating_add(1);
                return Ok(Some(Entry::Piece(piece)));
            }
            if !segment.read_on()? {
                return Ok(None);
            }
        }
    }
}

impl Segment {
    /// Whether no more will be written to it: there is a later one, or it was taken away to make room for one.
    fn is_over(&self, directory: &std::path::Path, execution: &str) -> io::Result<bool> {
        let next = directory.join(segment_name(execution, self.number + 1));
        Ok(next.try_exists()? || self.file.metadata()?.nlink() == 0)
    }

    fn read_on(&mut self) -> io::Result<bool> {
        let mut chunk = [0; 64 * 1024];
        let read = self.file.read(&mut chunk)?;
        self.arrived.drain(..self.taken);
        self.taken = 0;
        self.arrived.extend(&chunk[..read]);
        Ok(read > 0)
    }

    /// None: it is not there yet.
    fn first_seq(&mut self) -> io::Result<Option<u64>> {
        while self.header().is_none() {
            if !self.read_on()? {
                return Ok(None);
            }
        }
        Ok(self.header().map(|(first_seq, _)| first_seq))
    }

    fn header(&self) -> Option<(u64, u64)> {
        let header = self.arrived.first_chunk::<SEGMENT_HEADER>()?;
        Some((number(&header[..8]), number(&header[8..])))
    }

    fn take_header(&mut self) -> Option<(u64, u64)> {
        let parts = self.header()?;
        self.taken = SEGMENT_HEADER;
        self.begun = true;
        Some(parts)
    }

    fn take_piece(&mut self) -> io::Result<Option<Piece>> {
        let arrived = &self.arrived[self.taken..];
        let Some((header, rest)) = arrived.split_first_chunk::<HEADER>() else { return Ok(None) };
        let (length, stream, seq, at) = (&header[..4], header[4], &header[5..13], &header[13..]);
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
        self.taken += HEADER + length;
        Ok(Some(piece))
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
}
