//! The position of a reader in a log: a number of the history, and a position in the output of each execution that had
//! started there and not ended. Entries of a log have no number of their own: that would need a second durable writer
//! beside the store and the keepers, whose crash would lose or repeat entries. The numbers of each source are enough: a
//! reader has seen an entry if its position in that source is past it, wherever the entry is read from.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use pinfold_lifecycle::{ExecutionId, Generation};
use pinfold_provider::ReadPosition;
use pinfold_store::Seq;
use serde::{Deserialize, Serialize};

use crate::log_line::{LogLine, OutputBoundary};

/// Opaque to clients. Its text form needs no escaping in a URL.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cursor {
    pub(crate) history: Seq,
    pub(crate) generation: Generation,
    pub(crate) open: BTreeMap<ExecutionId, OutputPosition>,
}

/// A position in the output of one execution: whole pieces, bytes of the next piece, and the sum of all bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub(crate) struct OutputPosition {
    pub(crate) piece: u64,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl OutputPosition {
    /// The position after which nothing is read.
    pub(crate) fn end(self) -> Self {
        Self { piece: u64::MAX, offset: 0, bytes: self.bytes }
    }

    /// Where a reader starts: before the piece that is read in part.
    pub(crate) fn read_position(self) -> ReadPosition {
        ReadPosition { seq: self.piece, bytes: self.bytes }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a position in a log; give `after` the seq of an entry, or nothing")]
pub struct CursorError {
    given: String,
}

/// More executions than run in one sandbox.
const MAX_OPEN: usize = 4_096;

impl Cursor {
    pub(crate) fn position(&self, execution: ExecutionId) -> OutputPosition {
        self.open.get(&execution).copied().unwrap_or_default()
    }

    /// Output of an open execution is compared with its own position. Other output lies between two records, and was seen
    /// if the later record was.
    pub(crate) fn has_seen(&self, line: &LogLine) -> bool {
        match (line.position, line.execution) {
            (Some(position), Some(execution)) => match self.open.get(&execution) {
                Some(seen) => position <= *seen,
                None => self.history > line.history,
            },
            (Some(_) | None, _) => line.history <= self.history,
        }
    }

    pub(crate) fn pass(&mut self, line: &LogLine) {
        match (line.position, line.execution) {
            (Some(position), Some(execution)) => {
                self.open.insert(execution, position);
            }
            (Some(_) | None, execution) => {
                self.history = line.history;
                self.generation = self.generation.max(line.generation);
                match (line.boundary, execution) {
                    (Some(OutputBoundary::Begins), Some(execution)) => {
                        self.open.entry(execution).or_default();
                    }
                    (Some(OutputBoundary::Ends), Some(execution)) => {
                        self.open.remove(&execution);
                    }
                    (Some(_) | None, _) => {}
                }
            }
        }
    }

    /// Whether a reader at this cursor has seen everything that a reader at `other` has.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let covered = |(execution, position): (&ExecutionId, &OutputPosition)| {
            self.open.get(execution).map_or(self.history > other.history, |seen| seen >= position)
        };
        self.history >= other.history && other.open.iter().all(covered)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.history.0, self.generation.0)?;
        for (execution, OutputPosition { piece, offset, bytes }) in &self.open {
            write!(f, "~{execution}.{piece}.{offset}.{bytes}")?;
        }
        Ok(())
    }
}

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(given: &str) -> Result<Self, CursorError> {
        // The text goes into an error, so it is bounded.
        let refused = || CursorError { given: given.chars().take(64).collect() };
        let mut parts = given.split('~');
        let (history, generation) =
            parts.next().and_then(|first| first.split_once('-')).ok_or_else(refused)?;
        let mut cursor = Self {
            history: Seq(history.parse().map_err(|_| refused())?),
            generation: Generation(generation.parse().map_err(|_| refused())?),
            open: BTreeMap::new(),
        };
        for part in parts {
            let (execution, position) = read_open(part).ok_or_else(refused)?;
            cursor.open.insert(execution, position);
            if cursor.open.len() > MAX_OPEN {
                return Err(refused());
            }
        }
        Ok(cursor)
    }
}

fn read_open(part: &str) -> Option<(ExecutionId, OutputPosition)> {
    let mut parts = part.split('.');
    let execution = parts.next()?.parse().ok()?;
    let mut number = || parts.next()?.parse().ok();
    let position = OutputPosition { piece: number()?, offset: number()?, bytes: number()? };
    parts.next().is_none().then_some((execution, position))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_as_it_was_written_and_needs_no_escaping_in_a_url() {
        let position = OutputPosition { piece: 7, offset: 3, bytes: 900 };
        let open = BTreeMap::from([(ExecutionId(1), OutputPosition::default()), (ExecutionId(2), position)]);
        let cursor = Cursor { history: Seq(12), generation: Generation(3), open };

        let text = cursor.to_string();

        assert_eq!(text.parse(), Ok(cursor));
        assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)));
    }

    #[test]
    fn an_invalid_cursor_is_refused_with_a_short_error() {
        let no_position = format!("1-1~{}.1.2", ExecutionId(1));
        let too_much = format!("1-1~{}.1.2.3.4", ExecutionId(1));
        for given in
            ["", "1", "x-1", "1-x", "1-1~", "1-1~exe_.1.1.1", &no_position, &too_much, &"9".repeat(10_000)]
        {
            let error = given.parse::<Cursor>().unwrap_err();
            assert!(error.to_string().len() < 200);
        }
    }
}
