//! A line of a log as it is kept: an entry with its place in its own source, so that any reader can tell whether it
//! has seen it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pinfold_lifecycle::{ExecutionId, Generation, Timestamp};
use pinfold_store::Seq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::cursor::Place;
use crate::entry::Source;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) at: Timestamp,
    pub(crate) source: Source,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) execution: Option<ExecutionId>,
    pub(crate) generation: Generation,
    pub(crate) kept: Kept,
    /// Of a record its own place, of output the last record before it.
    #[serde(with = "seq")]
    pub(crate) history: Seq,
    /// Only of output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) place: Option<Place>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) turn: Option<Turn>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kept {
    Text(String),
    #[serde(rename = "base64", serialize_with = "write_base64", deserialize_with = "read_base64")]
    Bytes(Vec<u8>),
    Gap(Missing),
}

/// Why output is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// It made room for what came after it.
    MadeRoom,
    /// Nothing of the execution's output is here any more.
    NotKept,
    /// What is there is damaged.
    Unreadable,
}

/// What a record means for the output of its execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Turn {
    /// From here on there may be some.
    Opens,
    /// All of it is before this.
    Closes,
}

impl Line {
    /// What it takes of a page, roughly.
    pub(crate) fn weight(&self) -> usize {
        self.kept.length()
    }
}

impl Kept {
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

    /// What is new in it to somebody who has seen so many bytes, where it ends at `end`. A character whose first half
    /// has made room begins elsewhere than it did before.
    pub(crate) fn beyond(self, end: u64, seen: u64) -> Self {
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
