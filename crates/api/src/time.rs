//! The spelling of timestamps.

/// A moment in milliseconds since 1970 as RFC 3339 in UTC, with milliseconds. A moment outside of jiff's range is
/// spelled as its number.
#[must_use]
pub fn rfc3339(at_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(at_ms).map_or_else(|_| at_ms.to_string(), |at| format!("{at:.3}"))
}
