//! The output of executions, in files that the sandbox cannot reach: numbered chunks with time and stream, in a ring of
//! segment files whose oldest are deleted. The keeper appends ([`LogWriter`]). Readers ([`LogReader`]) follow at their
//! own pace, also after the execution ended, and see an [`OutputGap`] where chunks were deleted before they were read.
//!
//! ```text
//!   LogWriter --append--> EXECUTION.7.log  EXECUTION.8.log  EXECUTION.9.log --> LogReader, LogReader, ...
//!                         (oldest)                          (current)
//! ```

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

pub use reader::LogReader;
pub use spare::SpareLog;

/// One chunk of output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputChunk {
    pub seq: u64,
    pub at_ms: i64,
    pub stream: OutputStream,
    pub bytes: Vec<u8>,
}

/// Chunks that were deleted before they were read, from the first to the last inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputGap {
    pub from_seq: u64,
    pub to_seq: u64,
    pub bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputEntry {
    Chunk(OutputChunk),
    Gap(OutputGap),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputStream {
    /// Also all output to a terminal.
    Stdout,
    Stderr,
}

/// Where a writer starts: at the beginning, or after the output that an earlier instance kept of the same execution.
/// Earlier segments are the oldest in the new writer's ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPosition {
    /// Number of the oldest remaining segment.
    pub oldest: u64,
    pub segment: u64,
    pub seq: u64,
    /// Total bytes of all earlier chunks.
    pub bytes: u64,
}

impl Default for LogPosition {
    fn default() -> Self {
        Self { oldest: 0, segment: 0, seq: 1, bytes: 0 }
    }
}

/// How much output is kept of one execution: the number of segments, including the current one, and their size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingSize {
    pub segments: usize,
    pub segment_bytes: u64,
}

impl RingSize {
    pub const DEFAULT: Self = Self { segments: 8, segment_bytes: 1 << 20 };
}

/// A segment starts with the number of its first chunk and the count of all bytes before it.
const SEGMENT_HEADER: usize = 16;
/// A chunk starts with its length, stream, number and time.
const CHUNK_HEADER: usize = 21;
const MAX_CHUNK_BYTES: usize = 1 << 20;

fn segment_name(execution: &str, number: u64) -> String {
    format!("{execution}.{number}.log")
}

pub struct LogWriter {
    directory: OwnedFd,
    execution: String,
    ring: RingSize,
    file: File,
    segment_bytes_written: u64,
    segments: VecDeque<u64>,
    next: u64,
    position: LogPosition,
    /// Total bytes of all chunks of this writer, including deleted ones.
    pub written: u64,
}

impl LogWriter {
    pub fn begin(
        directory: OwnedFd,
        execution: &str,
        ring: RingSize,
        position: LogPosition,
    ) -> io::Result<Self> {
        let LogPosition { oldest, segment, seq, bytes } = position;
        let file = begin_segment(&directory, &segment_name(execution, segment), seq, bytes)?;
        // The position comes from outside: take no more segments from it than the ring holds.
        let oldest = oldest.max(segment.saturating_sub(ring.segments as u64));
        let segments = (oldest..=segment).collect();
        let mut writer = Self {
            directory,
            execution: execution.to_owned(),
            ring,
            file,
            segment_bytes_written: 0,
            segments,
            next: seq,
            position,
            written: 0,
        };
        writer.delete_oldest(ring.segments)?;
        Ok(writer)
    }

    /// Appends a chunk in one write, so that readers see it complete or not at all.
    pub fn append(&mut self, stream: OutputStream, at_ms: i64, bytes: &[u8]) -> io::Result<()> {
        if self.segment_bytes_written >= self.ring.segment_bytes {
            self.rotate()?;
        }
        let mut chunk = Vec::with_capacity(CHUNK_HEADER + bytes.len());
        chunk.extend(u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?.to_le_bytes());
        chunk.push(match stream {
            OutputStream::Stdout => 1,
            OutputStream::Stderr => 2,
        });
        chunk.extend(self.next.to_le_bytes());
        chunk.extend(at_ms.to_le_bytes());
        chunk.extend(bytes);
        self.file.write_all(&chunk)?;
        self.next += 1;
        self.segment_bytes_written += chunk.len() as u64;
        self.written += bytes.len() as u64;
        Ok(())
    }

    pub fn chunks(&self) -> u64 {
        self.next - self.position.seq
    }

    /// Deletes the oldest segments until `stay` are left.
    fn delete_oldest(&mut self, stay: usize) -> io::Result<()> {
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

    /// Starts the next segment. Deletes the oldest first, so that there are never more than the ring holds.
    fn rotate(&mut self) -> io::Result<()> {
        self.delete_oldest(self.ring.segments.saturating_sub(1))?;
        let number = self.segments.back().map_or(0, |last| last + 1);
        let name = segment_name(&self.execution, number);
        let bytes_before = self.position.bytes.saturating_add(self.written);
        self.file = begin_segment(&self.directory, &name, self.next, bytes_before)?;
        self.segments.push_back(number);
        self.segment_bytes_written = 0;
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
