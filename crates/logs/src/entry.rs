//! One entry of a log, as readers get it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pinfold_lifecycle::{ExecutionId, Generation, Timestamp};
use serde::{Deserialize, Serialize};

use crate::cursor::Cursor;
use crate::line::{Kept, Line, Missing};
use crate::printable::{printable, printable_bytes};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where a reader that has seen this entry goes on. It is that reader's alone: another may have seen the same
    /// entries of several executions in another order.
    pub seq: Cursor,
    pub at: Timestamp,
    pub source: Source,
    pub execution: Option<ExecutionId>,
    pub generation: Generation,
    pub content: Content,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Stdout,
    Stderr,
    /// What the control plane did, one line without its end. Gaps too: nobody knows which stream they were of.
    Control,
}

/// What was written, as it was written: it may hold anything, terminal escapes too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    Text(String),
    /// What is not UTF-8.
    Bytes(Vec<u8>),
    Gap(Gap),
}

/// Output is missing here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    pub why: Missing,
    /// None: nobody knows how much.
    pub bytes: Option<u64>,
}

impl Entry {
    /// The entry that a line is to a reader that has come so far, and now passes it.
    pub(crate) fn of(mut line: Line, cursor: &mut Cursor) -> Self {
        let before = line.execution.map(|execution| cursor.place(execution)).unwrap_or_default();
        let after = line.place.unwrap_or_default();
        cursor.pass(&line);
        if line.place.is_some() {
            line.kept = line.kept.beyond(after.bytes, before.bytes);
        }
        let content = match line.kept {
            Kept::Text(text) => Content::Text(text),
            Kept::Bytes(bytes) => Content::Bytes(bytes),
            Kept::Gap(why) => {
                let bytes = (why == Missing::MadeRoom).then(|| after.bytes.saturating_sub(before.bytes));
                Content::Gap(Gap { why, bytes })
            }
        };
        Self {
            seq: cursor.clone(),
            at: line.at,
            source: line.source,
            execution: line.execution,
            generation: line.generation,
            content,
        }
    }

    pub(crate) fn weight(&self) -> usize {
        match &self.content {
            Content::Text(text) => text.len(),
            Content::Bytes(bytes) => bytes.len(),
            Content::Gap(_) => 0,
        }
    }

    /// The number that its keeper gave to what it ends with, in whole or in part. None: it is no output, or what is
    /// missing has none.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        let place = self.seq.open.get(&self.execution?)?;
        let is_output = self.source != Source::Control || matches!(self.content, Content::Gap(_));
        let number = place.piece.checked_add(u64::from(place.offset > 0));
        number.filter(|number| is_output && *number != u64::MAX)
    }

    /// As text, where it is text. A gap is told in words.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        match &self.content {
            Content::Text(text) => Some(text.clone()),
            Content::Bytes(_) => None,
            Content::Gap(gap) => Some(gap.to_string()),
        }
    }

    /// Where it is not text.
    #[must_use]
    pub fn base64(&self) -> Option<String> {
        match &self.content {
            Content::Bytes(bytes) => Some(STANDARD.encode(bytes)),
            Content::Text(_) | Content::Gap(_) => None,
        }
    }

    #[must_use]
    pub fn gap(&self) -> Option<Gap> {
        match self.content {
            Content::Gap(gap) => Some(gap),
            Content::Text(_) | Content::Bytes(_) => None,
        }
    }

    /// What can be shown on any terminal without doing anything to it.
    #[must_use]
    pub fn printable(&self) -> String {
        match &self.content {
            Content::Text(text) => printable(text),
            Content::Bytes(bytes) => printable_bytes(bytes),
            Content::Gap(gap) => gap.to_string(),
        }
    }
}

impl std::fmt::Display for Gap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.why, self.bytes) {
            (Missing::MadeRoom, Some(bytes)) => write!(f, "{bytes} bytes of output made room for later ones"),
            (Missing::MadeRoom, None) => f.write_str("output made room for later output"),
            (Missing::NotKept, _) => f.write_str("output is not kept any more"),
            (Missing::Unreadable, _) => f.write_str("output is damaged and cannot be read"),
        }
    }
}
