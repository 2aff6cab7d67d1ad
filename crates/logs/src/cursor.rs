//! How far a reader has come: the place in the history, and in the output of each execution that had started there
//! and not ended. Nobody numbers the entries of a log, since that would take a second durable writer beside the store
//! and the keepers, and whatever it had not yet numbered would be lost or doubled when it dies. What each of them
//! numbers by itself is enough: an entry was seen if its own source has come past it, wherever it is read from.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use pinfold_lifecycle::{ExecutionId, Generation};
use pinfold_store::Seq;
use serde::{Deserialize, Serialize};

use crate::line::{Line, Turn};

/// Opaque to whoever gets one: it is shown as text without spaces that may stand in an address as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cursor {
    pub(crate) history: Seq,
    pub(crate) generation: Generation,
    pub(crate) open: BTreeMap<ExecutionId, Place>,
}

/// A place in what one execution wrote: so many whole pieces, so many bytes of the next, and the sum of all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) piece: u64,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl Place {
    /// Nothing is read after this.
    pub(crate) fn end(self) -> Self {
        Self { piece: u64::MAX, offset: 0, bytes: self.bytes }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a place in a log; give `after` the seq of an entry, or nothing")]
pub struct CursorError {
    given: String,
}

/// More executions than run in one sandbox.
const MOST_OPEN: usize = 4_096;

impl Cursor {
    pub(crate) fn place(&self, execution: ExecutionId) -> Place {
        self.open.get(&execution).copied().unwrap_or_default()
    }

    /// Output is remembered by itself while its execution is open. Otherwise it lies between two records, and was
    /// seen if the later one was.
    pub(crate) fn has_seen(&self, line: &Line) -> bool {
        match (line.place, line.execution) {
            (Some(place), Some(execution)) => match self.open.get(&execution) {
                Some(seen) => place <= *seen,
                None => self.history > line.history,
            },
            (Some(_) | None, _) => line.history <= self.history,
        }
    }

    pub(crate) fn pass(&mut self, line: &Line) {
        match (line.place, line.execution) {
            (Some(place), Some(execution)) => {
                self.open.insert(execution, place);
            }
            (Some(_) | None, execution) => {
                self.history = line.history;
                self.generation = self.generation.max(line.generation);
                match (line.turn, execution) {
                    (Some(Turn::Opens), Some(execution)) => {
                        self.open.entry(execution).or_default();
                    }
                    (Some(Turn::Closes), Some(execution)) => {
                        self.open.remove(&execution);
                    }
                    (Some(_) | None, _) => {}
                }
            }
        }
    }

    /// Whether nothing that `other` has seen is new here.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let covered = |(execution, place): (&ExecutionId, &Place)| {
            self.open.get(execution).map_or(self.history > other.history, |seen| seen >= place)
        };
        self.history >= other.history && other.open.iter().all(covered)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.history.0, self.generation.0)?;
        for (execution, Place { piece, offset, bytes }) in &self.open {
            write!(f, "~{execution}.{piece}.{offset}.{bytes}")?;
        }
        Ok(())
    }
}

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(given: &str) -> Result<Self, CursorError> {
        // What is echoed has to be bounded too.
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
            let (execution, place) = read_open(part).ok_or_else(refused)?;
            cursor.open.insert(execution, place);
            if cursor.open.len() > MOST_OPEN {
                return Err(refused());
            }
        }
        Ok(cursor)
    }
}

fn read_open(part: &str) -> Option<(ExecutionId, Place)> {
    let mut parts = part.split('.');
    let execution = parts.next()?.parse().ok()?;
    let mut number = || parts.next()?.parse().ok();
    let place = Place { piece: number()?, offset: number()?, bytes: number()? };
    parts.next().is_none().then_some((execution, place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_as_it_was_written_and_may_stand_in_an_address() {
        let place = Place { piece: 7, offset: 3, bytes: 900 };
        let open = BTreeMap::from([(ExecutionId(1), Place::default()), (ExecutionId(2), place)]);
        let cursor = Cursor { history: Seq(12), generation: Generation(3), open };

        let text = cursor.to_string();

        assert_eq!(text.parse(), Ok(cursor));
        assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)));
    }

    #[test]
    fn what_is_no_cursor_is_refused_in_few_words() {
        let no_place = format!("1-1~{}.1.2", ExecutionId(1));
        let too_much = format!("1-1~{}.1.2.3.4", ExecutionId(1));
        for given in
            ["", "1", "x-1", "1-x", "1-1~", "1-1~exe_.1.1.1", &no_place, &too_much, &"9".repeat(10_000)]
        {
            let error = given.parse::<Cursor>().unwrap_err();
            assert!(error.to_string().len() < 200);
        }
    }
}
