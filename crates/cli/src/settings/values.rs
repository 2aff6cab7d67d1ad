//! Types of setting values, with their text forms.

use std::fmt;

use clap::ValueEnum;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::units::milliseconds;

/// A duration in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time(pub(crate) u64);

impl fmt::Display for Time {
    /// Uses the largest unit that divides it evenly.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)];
        match units.iter().find(|(_, ms)| self.0 >= *ms && self.0.is_multiple_of(*ms)) {
            Some((unit, ms)) => write!(f, "{}{unit}", self.0 / ms),
            None => write!(f, "{}ms", self.0),
        }
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TimeVisitor)
    }
}

struct TimeVisitor;

impl Visitor<'_> for TimeVisitor {
    type Value = Time;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time: seconds as 90, or \"500ms\", \"90s\", \"5m\", \"1h\", \"1d\"")
    }

    fn visit_str<E: de::Error>(self, given: &str) -> Result<Time, E> {
        milliseconds(given).map(Time).map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Time, E> {
        seconds.checked_mul(1_000).map(Time).ok_or_else(|| E::custom(format!("`{seconds}` is too long")))
    }

    fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Time, E> {
        let seconds = u64::try_from(seconds);
        seconds
            .map_err(|_| E::custom("a time cannot be negative"))
            .and_then(|seconds| self.visit_u64(seconds))
    }
}

/// What happens to sandboxes when the server ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ExitAction {
    /// The next server or command adopts them
    Keep,
    /// The server stops them and proves them gone
    Stop,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// A secret value, which is never printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(pub(crate) String);

const HIDDEN: &str = "(not shown)";

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(HIDDEN)
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The default error message would include the value.
        String::deserialize(deserializer)
            .map(Self)
            .map_err(|_| de::Error::custom("expected a quoted string (value not shown)"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_shown_in_a_form_that_parses_back() {
        for text in ["1d", "90m", "30s", "1500ms", "0ms"] {
            assert_eq!(Time(milliseconds(text).unwrap()).to_string(), text);
        }
    }
}
