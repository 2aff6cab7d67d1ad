//! The output of one execution, in chunks of bounded length that do not split a character. The chunks depend only on
//! what was written, so every reader gets the same ones.

use std::collections::VecDeque;
use std::io;

use pinfold_lifecycle::Timestamp;
use pinfold_provider::{OutputChunk, OutputEntry, OutputGap, OutputReader, OutputStream};

use crate::cursor::OutputPosition;
use crate::entry::Source;
use crate::log_line::{GapReason, LineContent};

/// The longest chunk in bytes, however long a line is.
pub(crate) const MAX_CHUNK: usize = 16 * 1024;

/// A chunk of output, and the position after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogChunk {
    pub(crate) at: Timestamp,
    pub(crate) source: Source,
    pub(crate) content: LineContent,
    pub(crate) after: OutputPosition,
}

pub(crate) struct ExecutionOutput {
    /// None: there is nothing to read from.
    reader: Option<Box<dyn OutputReader>>,
    position: OutputPosition,
    ahead: VecDeque<OutputEntry>,
    head: Option<LogChunk>,
    /// The last read found nothing more.
    is_exhausted: bool,
    /// The output was complete at the last read.
    is_complete: bool,
    last_at: Timestamp,
}

impl ExecutionOutput {
    /// `reader` continues at the position.
    pub(crate) fn after(position: OutputPosition, reader: Option<Box<dyn OutputReader>>) -> Self {
        Self {
            reader,
            position,
            ahead: VecDeque::new(),
            head: None,
            is_exhausted: false,
            is_complete: false,
            last_at: Timestamp(0),
        }
    }

    /// Allows another read: there may be more now.
    pub(crate) fn poll_again(&mut self) {
        self.is_exhausted = false;
    }

    /// The next chunk, if it is there. Once the output is complete, an incomplete character at its end is a chunk too. A gap
    /// without a time of its own gets the time of the next record.
    pub(crate) fn head(
        &mut self,
        is_complete: bool,
        next_record: Timestamp,
    ) -> io::Result<Option<&LogChunk>> {
        if is_complete && !self.is_complete {
            (self.is_complete, self.is_exhausted) = (true, false);
        }
        let now = next_record.max(self.last_at);
        if self.head.is_none() && !self.is_exhausted && self.position.piece != u64::MAX {
            self.head = match self.next_chunk(now) {
                Err(error) if is_damage(&error) => Some(self.missing(GapReason::Unreadable, now)),
                other => other?,
            };
            self.is_exhausted = self.head.is_none();
        }
        Ok(self.head.as_ref())
    }

    pub(crate) fn take(&mut self) -> Option<LogChunk> {
        let chunk = self.head.take()?;
        self.pass(chunk.after);
        self.last_at = chunk.at;
        Some(chunk)
    }

    fn pass(&mut self, after: OutputPosition) {
        let done = |logged: &OutputEntry| match logged {
            OutputEntry::Chunk(piece) => piece.seq <= after.piece,
            OutputEntry::Gap(gap) => gap.to_seq <= after.piece,
        };
        while self.ahead.front().is_some_and(done) {
            self.ahead.pop_front();
        }
        self.position = after;
    }

    fn missing(&self, why: GapReason, at: Timestamp) -> LogChunk {
        LogChunk { at, source: Source::Control, content: LineContent::Gap(why), after: self.position.end() }
    }

    fn next_chunk(&mut self, now: Timestamp) -> io::Result<Option<LogChunk>> {
        if self.reader.is_none() {
            return Ok(self.is_complete.then(|| self.missing(GapReason::NotKept, now)));
        }
        loop {
            self.read_ahead(0)?;
            let (at, stream, seq, rest) = match self.ahead.front() {
                None => return Ok(None),
                Some(OutputEntry::Gap(OutputGap { to_seq, bytes, .. })) => {
                    let (piece, bytes) = (*to_seq, self.position.bytes.saturating_add(*bytes));
                    return self.gap(OutputPosition { piece, offset: 0, bytes }, now);
                }
                Some(OutputEntry::Chunk(piece)) => {
                    (piece.at_ms, piece.stream, piece.seq, self.rest_of(piece))
                }
            };
            if rest.is_empty() {
                let bytes = self.position.bytes;
                self.pass(OutputPosition { piece: seq, offset: 0, bytes });
                continue;
            }
            let rest = rest.to_vec();
            let Some(bytes) = self.cut_chunk(rest, stream)? else { return Ok(None) };
            let after = self.position_after(bytes.len() as u64)?;
            let source = match stream {
                OutputStream::Stdout => Source::Stdout,
                OutputStream::Stderr => Source::Stderr,
            };
            return Ok(Some(LogChunk { at: Timestamp(at), source, content: LineContent::of(bytes), after }));
        }
    }

    /// A gap has the time of the piece after it, and is returned once that piece is there.
    fn gap(&mut self, after: OutputPosition, now: Timestamp) -> io::Result<Option<LogChunk>> {
        self.read_ahead(1)?;
        let at = match self.ahead.get(1) {
            Some(OutputEntry::Chunk(piece)) => Timestamp(piece.at_ms),
            Some(OutputEntry::Gap(_)) => now,
            None if self.is_complete => now,
            None => return Ok(None),
        };
        Ok(Some(LogChunk {
            at,
            source: Source::Control,
            content: LineContent::Gap(GapReason::Rotated),
            after,
        }))
    }

    /// Reads ahead until the piece with this index is there, if possible.
    fn read_ahead(&mut self, index: usize) -> io::Result<()> {
        let Some(reader) = &mut self.reader else { return Ok(()) };
        while self.ahead.len() <= index {
            match reader.next()? {
                Some(logged) => self.ahead.push_back(logged),
                None => break,
            }
        }
        Ok(())
    }

    /// The unread rest of a piece.
    fn rest_of<'a>(&self, piece: &'a OutputChunk) -> &'a [u8] {
        let begun = piece.seq == self.position.piece.saturating_add(1);
        let offset = if begun { usize::try_from(self.position.offset).unwrap_or(usize::MAX) } else { 0 };
        piece.bytes.get(offset..).unwrap_or_default()
    }

    /// Cuts a chunk. A character whose end is missing waits for it in the next piece, if that is of the same stream. None:
    /// the next piece is not there yet.
    fn cut_chunk(&mut self, mut bytes: Vec<u8>, stream: OutputStream) -> io::Result<Option<Vec<u8>>> {
        if bytes.len() > MAX_CHUNK {
            bytes.truncate(MAX_CHUNK);
            let line = bytes.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
            let cut = line.filter(|cut| *cut > MAX_CHUNK / 2).unwrap_or(MAX_CHUNK - incomplete_tail(&bytes));
            bytes.truncate(cut);
            return Ok(Some(bytes));
        }
        let mut ahead = 1;
        loop {
            let tail = incomplete_tail(&bytes);
            if tail == 0 || tail < bytes.len() {
                bytes.truncate(bytes.len() - tail);
                return Ok(Some(bytes));
            }
            self.read_ahead(ahead)?;
            let more = match self.ahead.get(ahead) {
                Some(OutputEntry::Chunk(next)) if next.stream == stream => Some(&next.bytes),
                Some(_) => None,
                None if self.is_complete => None,
                None => return Ok(None),
            };
            let Some(more) = more else { return Ok(Some(bytes)) };
            let fitting = more.iter().take(3).take_while(|byte| is_continuation(**byte)).count();
            let is_used_up = fitting == more.len();
            bytes.extend(&more[..fitting]);
            if !is_used_up {
                return Ok(Some(bytes));
            }
            ahead += 1;
        }
    }

    /// The position after so many bytes.
    fn position_after(&mut self, taken: u64) -> io::Result<OutputPosition> {
        let (mut after, mut left, mut index) = (self.position, taken, 0);
        after.bytes = after.bytes.saturating_add(taken);
        while left > 0 {
            let Some(OutputEntry::Chunk(piece)) = self.ahead.get(index) else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            let begun = piece.seq == after.piece.saturating_add(1);
            let offset = if begun { after.offset } else { 0 };
            let here = (piece.bytes.len() as u64).saturating_sub(offset);
            (after, left) = if left >= here {
                (OutputPosition { piece: piece.seq, offset: 0, ..after }, left - here)
            } else {
                (OutputPosition { piece: piece.seq.saturating_sub(1), offset: offset + left, ..after }, 0)
            };
            index += 1;
        }
        Ok(after)
    }
}

/// Whether the file is damaged, so that a retry cannot help.
fn is_damage(error: &io::Error) -> bool {
    let is_link = error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
    is_link || matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::IsADirectory)
}

fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// The number of bytes at the end that begin an incomplete character.
fn incomplete_tail(bytes: &[u8]) -> usize {
    for length in 1..=bytes.len().min(3) {
        let tail = &bytes[bytes.len() - length..];
        if !is_continuation(tail[0]) {
            let is_begun = std::str::from_utf8(tail).is_err_and(|error| error.error_len().is_none());
            return if is_begun { length } else { 0 };
        }
    }
    0
}

#[cfg(test)]
mod tests;
