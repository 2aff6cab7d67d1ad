//! What one execution wrote, in chunks of bounded length that do not cut through a character. The chunks depend on
//! what was written alone, so every reader gets the same ones.

use std::collections::VecDeque;
use std::io;
use std::path::Path;

use pinfold_keeper::log::{Entry as Logged, Gap, Piece, Reader, Stream};
use pinfold_lifecycle::{ExecutionId, Timestamp};

use crate::cursor::Place;
use crate::entry::Source;
use crate::line::{Kept, Missing};

/// No chunk is longer, however long a line is.
pub(crate) const LONGEST: usize = 16 * 1024;

/// What comes next of an execution's output, and where it is read on after that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) at: Timestamp,
    pub(crate) source: Source,
    pub(crate) kept: Kept,
    pub(crate) after: Place,
}

pub(crate) struct Output {
    /// None: there is nowhere to read it from.
    reader: Option<Reader>,
    place: Place,
    ahead: VecDeque<Logged>,
    head: Option<Chunk>,
    /// There was nothing more when it was last looked at.
    dry: bool,
    /// It was last looked at when all of it was there.
    is_complete: bool,
    last_at: Timestamp,
}

impl Output {
    pub(crate) fn after(place: Place, directory: Option<&Path>, execution: ExecutionId) -> Self {
        let (name, Place { piece, bytes, .. }) = (execution.to_string(), place);
        let reader = directory.map(|directory| Reader::after(directory, &name, piece, bytes));
        Self {
            reader,
            place,
            ahead: VecDeque::new(),
            head: None,
            dry: false,
            is_complete: false,
            last_at: Timestamp(0),
        }
    }

    /// There may be more now.
    pub(crate) fn look_again(&mut self) {
        self.dry = false;
    }

    /// The next chunk, if it is there. Where all is there that ever will be, what is cut off at the end is one too.
    /// What has no time of its own is given that of the record that comes next.
    pub(crate) fn head(&mut self, is_complete: bool, next_record: Timestamp) -> io::Result<Option<&Chunk>> {
        if is_complete && !self.is_complete {
            (self.is_complete, self.dry) = (true, false);
        }
        let now = next_record.max(self.last_at);
        if self.head.is_none() && !self.dry && self.place.piece != u64::MAX {
            self.head = match self.next_chunk(now) {
                Err(error) if is_damage(&error) => Some(self.missing(Missing::Unreadable, now)),
                other => other?,
            };
            self.dry = self.head.is_none();
        }
        Ok(self.head.as_ref())
    }

    pub(crate) fn take(&mut self) -> Option<Chunk> {
        let chunk = self.head.take()?;
        self.pass(chunk.after);
        self.last_at = chunk.at;
        Some(chunk)
    }

    fn pass(&mut self, after: Place) {
        let done = |logged: &Logged| match logged {
            Logged::Piece(piece) => piece.seq <= after.piece,
            Logged::Gap(gap) => gap.to_seq <= after.piece,
        };
        while self.ahead.front().is_some_and(done) {
            self.ahead.pop_front();
        }
        self.place = after;
    }

    fn missing(&self, why: Missing, at: Timestamp) -> Chunk {
        Chunk { at, source: Source::Control, kept: Kept::Gap(why), after: self.place.end() }
    }

    fn next_chunk(&mut self, now: Timestamp) -> io::Result<Option<Chunk>> {
        if self.reader.is_none() {
            return Ok(self.is_complete.then(|| self.missing(Missing::NotKept, now)));
        }
        loop {
            self.look_ahead(0)?;
            let (at, stream, seq, rest) = match self.ahead.front() {
                None => return Ok(None),
                Some(Logged::Gap(Gap { to_seq, bytes, .. })) => {
                    let (piece, bytes) = (*to_seq, self.place.bytes.saturating_add(*bytes));
                    return self.gap(Place { piece, offset: 0, bytes }, now);
                }
                Some(Logged::Piece(piece)) => (piece.at_ms, piece.stream, piece.seq, self.rest_of(piece)),
            };
            if rest.is_empty() {
                let bytes = self.place.bytes;
                self.pass(Place { piece: seq, offset: 0, bytes });
                continue;
            }
            let rest = rest.to_vec();
            let Some(bytes) = self.whole(rest, stream)? else { return Ok(None) };
            let after = self.place_after(bytes.len() as u64)?;
            let source = match stream {
                Stream::Stdout => Source::Stdout,
                Stream::Stderr => Source::Stderr,
            };
            return Ok(Some(Chunk { at: Timestamp(at), source, kept: Kept::of(bytes), after }));
        }
    }

    /// Dated as what comes after it, and told together with it.
    fn gap(&mut self, after: Place, now: Timestamp) -> io::Result<Option<Chunk>> {
        self.look_ahead(1)?;
        let at = match self.ahead.get(1) {
            Some(Logged::Piece(piece)) => Timestamp(piece.at_ms),
            Some(Logged::Gap(_)) => now,
            None if self.is_complete => now,
            None => return Ok(None),
        };
        Ok(Some(Chunk { at, source: Source::Control, kept: Kept::Gap(Missing::MadeRoom), after }))
    }

    /// Reads until the piece with this index is there, if it can be.
    fn look_ahead(&mut self, index: usize) -> io::Result<()> {
        let Some(reader) = &mut self.reader else { return Ok(()) };
        while self.ahead.len() <= index {
            match reader.next()? {
                Some(logged) => self.ahead.push_back(logged),
                None => break,
            }
        }
        Ok(())
    }

    /// What of a piece is not read yet.
    fn rest_of<'a>(&self, piece: &'a Piece) -> &'a [u8] {
        let begun = piece.seq == self.place.piece.saturating_add(1);
        let offset = if begun { usize::try_from(self.place.offset).unwrap_or(usize::MAX) } else { 0 };
        piece.bytes.get(offset..).unwrap_or_default()
    }

    /// As much as makes a chunk. A character whose end has not come yet waits for it: in the next piece, if that is
    /// of the same stream. None: it is not known yet.
    fn whole(&mut self, mut bytes: Vec<u8>, stream: Stream) -> io::Result<Option<Vec<u8>>> {
        if bytes.len() > LONGEST {
            bytes.truncate(LONGEST);
            let line = bytes.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
            let cut = line.filter(|cut| *cut > LONGEST / 2).unwrap_or(LONGEST - cut_off(&bytes));
            bytes.truncate(cut);
            return Ok(Some(bytes));
        }
        let mut ahead = 1;
        loop {
            let tail = cut_off(&bytes);
            if tail == 0 || tail < bytes.len() {
                bytes.truncate(bytes.len() - tail);
                return Ok(Some(bytes));
            }
            self.look_ahead(ahead)?;
            let more = match self.ahead.get(ahead) {
                Some(Logged::Piece(next)) if next.stream == stream => Some(&next.bytes),
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

    /// Where so many bytes from here lead to.
    fn place_after(&mut self, taken: u64) -> io::Result<Place> {
        let (mut after, mut left, mut index) = (self.place, taken, 0);
        after.bytes = after.bytes.saturating_add(taken);
        while left > 0 {
            let Some(Logged::Piece(piece)) = self.ahead.get(index) else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            let begun = piece.seq == after.piece.saturating_add(1);
            let offset = if begun { after.offset } else { 0 };
            let here = (piece.bytes.len() as u64).saturating_sub(offset);
            (after, left) = if left >= here {
                (Place { piece: piece.seq, offset: 0, ..after }, left - here)
            } else {
                (Place { piece: piece.seq.saturating_sub(1), offset: offset + left, ..after }, 0)
            };
            index += 1;
        }
        Ok(after)
    }
}

/// What no later try can read.
fn is_damage(error: &io::Error) -> bool {
    let is_link = error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
    is_link || matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::IsADirectory)
}

fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// How many bytes at the end are the beginning of a character that is not there whole.
fn cut_off(bytes: &[u8]) -> usize {
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
