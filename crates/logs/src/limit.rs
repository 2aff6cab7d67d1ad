//! How much of a log is read at once.

/// A page ends with the first of them that is reached. It has one entry at least, if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    pub entries: usize,
    /// Of what was written, not of what is sent.
    pub bytes: usize,
}

impl Default for Limit {
    fn default() -> Self {
        Self { entries: 1_000, bytes: 1 << 20 }
    }
}

/// What is left of a limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Left(Limit);

impl Left {
    pub(crate) fn of(limit: Limit) -> Self {
        Self(Limit { entries: limit.entries.max(1), bytes: limit.bytes.max(1) })
    }

    pub(crate) fn is_none(self) -> bool {
        self.0.entries == 0 || self.0.bytes == 0
    }

    pub(crate) fn take(&mut self, bytes: usize) {
        self.0.entries = self.0.entries.saturating_sub(1);
        self.0.bytes = self.0.bytes.saturating_sub(bytes);
    }
}
