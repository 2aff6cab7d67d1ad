//! What an execution writes, in files outside the sandbox's reach: numbered pieces with their time and stream, in a
//! ring of segments whose oldest make room. The keeper appends ([`Writer`]); whoever reads ([`Reader`]) follows at its
//! own pace, also after the end, and is told where it came too late.

mod reader;
mod spare;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

pub use reader::Reader;
pub(crate) use spare::Spare;

/// One piece of output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    pub seq: u64,
    pub at_ms: i64,
    pub stream: Stream,
    pub bytes: Vec<u8>,
}

/// Pieces that had to make room before they were read, the first and the last of them included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    pub from_seq: u64,
    pub to_seq: u64,
    pub bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    Piece(Piece),
    Gap(Gap),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Also all that is written to a terminal.
    Stdout,
    Stderr,
}

/// Where a writer begins: at the beginning, or after what an earlier body has kept of the same execution. That is the
/// oldest in its ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Onset {
    /// The oldest segment that is left.
    pub oldest: u64,
    pub segment: u64,
    pub seq: u64,
    /// All bytes of all pieces before.
    pub bytes: u64,
}

impl Default for Onset {
    fn default() -> Self {
        Self { oldest: 0, segment: 0, seq: 1, bytes: 0 }
    }
}

/// How much is kept of one execution: so many segments of so many bytes, the one being written among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ring {
    pub segments: usize,
    pub segment_bytes: u64,
}

impl Ring {
    pub const DEFAULT: Self = Self { segments: 8, segment_bytes: 1 << 20 };
}

/// A segment begins with the number of its first piece and the count of all bytes before it.
const SEGMENT_HEADER: usize = 16;
/// A piece begins with its length, stream, number and time.
const HEADER: usize = 21;
const LONGEST: usize = 1 << 20;

fn segment_name(execution: &str, number: u64) -> String {
    format!("{execution}.{number}.log")
}

pub struct Writer {
    directory: OwnedFd,
    execution: String,
    ring: Ring,
    file: File,
    in_file: u64,
    segments: VecDeque<u64>,
    next: u64,
    onset: Onset,
    /// All bytes of all its pieces, those that made room too.
    pub(crate) written: u64,
}

impl Writer {
    pub fn begin(directory: OwnedFd, execution: &str, ring: Ring, onset: Onset) -> io::Result<Self> {
        let Onset { oldest, segment, seq, bytes } = onset;
        let file = begin_segment(&directory, &segment_name(execution, segment), seq, bytes)?;
        // However many are said to be left, there is room for so many.
        let oldest = oldest.max(segment.saturating_sub(ring.segments as u64));
        let segments = (oldest..=segment).collect();
        let mut writer = Self {
            directory,
            execution: execution.to_owned(),
            ring,
            file,
            in_file: 0,
            segments,
            next: seq,
            onset,
            written: 0,
        };
        writer.make_room(ring.segments)?;
        Ok(writer)
    }

    /// In one write, so that a reader sees a piece whole or not at all.
    pub fn append(&mut self, stream: Stream, at_ms: i64, bytes: &[u8]) -> io::Result<()> {
        if self.in_file >= self.ring.segment_bytes {
            self.turn_over()?;
        }
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
        self.in_file += piece.len() as u64;
        self.written += bytes.len() as u64;
        Ok(())
    }

    pub(crate) fn pieces(&self) -> u64 {
        self.next - self.onset.seq
    }

    /// No more than so many stay.
    fn make_room(&mut self, stay: usize) -> io::Result<()> {
        while self.segments.len() > stay
            && let Some(oldest) = self.segments.pop_front()
        {
            match unlinkat(&self.directory, segment_name(&self.execution, oldest), AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The oldest goes before the next comes, so that there are never more than the ring has.
    fn turn_over(&mut self) -> io::Result<()> {
        self.make_room(self.ring.segments.saturating_sub(1))?;
        let number = self.segments.back().map_or(0, |last| last + 1);
        let name = segment_name(&self.execution, number);
        let bytes_before = self.onset.bytes.saturating_add(self.written);
        self.file = begin_segment(&self.directory, &name, self.next, bytes_before)?;
        self.segments.push_back(number);
        self.in_file = 0;
        Ok(())
    }
}

fn begin_segment(directory: &OwnedFd, name: &str, first_seq: u64, bytes_before: u64) -> io::Result<File> {
    let mut file = spare::take(directory, name).or_else(|_| make(directory, name))?;
    let mut header = [0; SEGMENT_HEADER];
    header[..8].copy_from_slice(&first_seq.to_le_bytes());
    header[8..].copy_from_slice(&bytes_before.to_le_bytes());
    file.write_all(&header)?;
    Ok(file)
}

fn make(directory: &OwnedFd, name: &str) -> io::Result<File> {
    let flags = OFlags::CREATE | OFlags::APPEND | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(openat(directory, name, flags | OFlags::TRUNC, Mode::RUSR | Mode::WUSR)?.into())
}
