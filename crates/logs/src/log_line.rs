//! A line of an archived log: an entry with its position in its own source, so that any reader can tell whether it has
//! seen it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pinfold_lifecycle::{ExecutionId, Generation, Timestamp};
use pinfold_store::Seq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::cursor::OutputPosition;
use crate::entry::Source;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LogLine {
    pub(crate) at: Timestamp,
    pub(crate) source: Source,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) execution: Option<ExecutionId>,
    pub(crate) generation: Generation,
    pub(crate) content: LineContent,
    /// The number of the record itself; for output, the number of the last record before it.
    #[serde(with = "seq")]
    pub(crate) history: Seq,
    /// Only for output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) position: Option<OutputPosition>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) boundary: Option<OutputBoundary>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LineContent {
    Text(String),
    #[serde(rename = "base64", serialize_with = "write_base64", deserialize_with = "read_base64")]
    Bytes(Vec<u8>),
    Gap(GapReason),
}

/// Why output is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GapReason {
    /// It was dropped to make room for later output.
    Rotated,
    /// No output of the execution is stored any more.
    NotKept,
    /// The stored output is damaged.
    Unreadable,
}

/// Whether a record begins or ends the output of its execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OutputBoundary {
    /// There may be output from here on.
    Begins,
    /// All output is before this record.
    Ends,
}

impl LogLine {
    /// The bytes that it counts for in a page.
    pub(crate) fn weight(&self) -> usize {
        self.content.length()
    }
}

impl LineContent {
    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        String::from_utf8(bytes).map_or_else(|error| Self::Bytes(error.into_bytes()), Self::Text)
    }

    fn length(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Gap(_) => 0,
        }
    }

    /// The rest of the content for a reader that has seen `seen` bytes, where the content ends at byte `end`. A cut may fall
    /// into a character, since a character whose first half was dropped begins elsewhere than before.
    pub(crate) fn after_seen(self, end: u64, seen: u64) -> Self {
        let length = self.length();
        let begin = end.saturating_sub(length as u64);
        if seen <= begin {
            return self;
        }
        let known = usize::try_from(seen - begin).unwrap_or(usize::MAX).min(length);
        match self {
            Self::Text(text) => Self::of(text.into_bytes().split_off(known)),
            Self::Bytes(mut bytes) => Self::of(bytes.split_off(known)),
            Self::Gap(missing) => Self::Gap(missing),
        }
    }
}

fn write_base64<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

fn read_base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    STANDARD.decode(text).map_err(serde::de::Error::custom)
}

mod seq {
    use pinfold_store::Seq;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(seq: &Seq, serializer: S) -> Result<S::Ok, S::Error> {
        seq.0.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Seq, D::Error> {
        i64::deserialize(deserializer).map(Seq)
    }
}
