//! One entry of a log, as readers see it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pinfold_lifecycle::{ExecutionId, Generation, Timestamp};
use serde::{Deserialize, Serialize};

use crate::cursor::Cursor;
use crate::escape::{escape_bytes, escape_text};
use crate::log_line::{GapReason, LineContent, LogLine};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// Where a reader that has seen this entry goes on. It is valid for that reader only: another one may have seen entries
    /// of several executions in another order.
    pub seq: Cursor,
    pub at: Timestamp,
    pub source: Source,
    pub execution: Option<ExecutionId>,
    pub generation: Generation,
    pub content: EntryContent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Stdout,
    Stderr,
    /// A line of the control plane, without its newline. Gaps too: their stream is unknown.
    Control,
}

/// The content exactly as it was written. It may hold anything, terminal escapes too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryContent {
    Text(String),
    /// Output that is not UTF-8.
    Bytes(Vec<u8>),
    Gap(Gap),
}

/// Output is missing here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    pub reason: GapReason,
    /// None: unknown.
    pub bytes: Option<u64>,
}

impl LogEntry {
    /// Makes an entry of a line for a reader at this cursor, and moves the cursor past it.
    pub(crate) fn of(mut line: LogLine, cursor: &mut Cursor) -> Self {
        let before = line.execution.map(|execution| cursor.position(execution)).unwrap_or_default();
        let after = line.position.unwrap_or_default();
        cursor.pass(&line);
        if line.position.is_some() {
            line.content = line.content.after_seen(after.bytes, before.bytes);
        }
        let content = match line.content {
            LineContent::Text(text) => EntryContent::Text(text),
            LineContent::Bytes(bytes) => EntryContent::Bytes(bytes),
            LineContent::Gap(why) => {
                let bytes = (why == GapReason::Rotated).then(|| after.bytes.saturating_sub(before.bytes));
                EntryContent::Gap(Gap { reason: why, bytes })
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
            EntryContent::Text(text) => text.len(),
            EntryContent::Bytes(bytes) => bytes.len(),
            EntryContent::Gap(_) => 0,
        }
    }

    /// The number that the keeper gave to the last piece of output in this entry, whole or in part. None: it is no output,
    /// or a gap without a number.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        let position = self.seq.open.get(&self.execution?)?;
        let is_output = self.source != Source::Control || matches!(self.content, EntryContent::Gap(_));
        let number = position.piece.checked_add(u64::from(position.offset > 0));
        number.filter(|number| is_output && *number != u64::MAX)
    }

    /// The text, if it is text. A gap is described in words.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        match &self.content {
            EntryContent::Text(text) => Some(text.clone()),
            EntryContent::Bytes(_) => None,
            EntryContent::Gap(gap) => Some(gap.to_string()),
        }
    }

    /// The content in base64, if it is not text.
    #[must_use]
    pub fn base64(&self) -> Option<String> {
        match &self.content {
            EntryContent::Bytes(bytes) => Some(STANDARD.encode(bytes)),
            EntryContent::Text(_) | EntryContent::Gap(_) => None,
        }
    }

    #[must_use]
    pub fn gap(&self) -> Option<Gap> {
        match self.content {
            EntryContent::Gap(gap) => Some(gap),
            EntryContent::Text(_) | EntryContent::Bytes(_) => None,
        }
    }

    /// The content with every terminal control spelled out.
    #[must_use]
    pub fn escaped(&self) -> String {
        match &self.content {
            EntryContent::Text(text) => escape_text(text),
            EntryContent::Bytes(bytes) => escape_bytes(bytes),
            EntryContent::Gap(gap) => gap.to_string(),
        }
    }
}

impl std::fmt::Display for Gap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.reason, self.bytes) {
            (GapReason::Rotated, Some(bytes)) => {
                write!(f, "{bytes} bytes of output were dropped to make room for later output")
            }
            (GapReason::Rotated, None) => f.write_str("output was dropped to make room for later output"),
            (GapReason::NotKept, _) => f.write_str("output is no longer stored"),
            (GapReason::Unreadable, _) => f.write_str("output is damaged and cannot be read"),
        }
    }
}
