//! The size of a page of a log.

/// A page ends when one of them is reached. It has at least one entry, if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLimit {
    pub entries: usize,
    /// Bytes of output, not of the encoded page.
    pub bytes: usize,
}

impl Default for PageLimit {
    fn default() -> Self {
        Self { entries: 1_000, bytes: 1 << 20 }
    }
}

/// The rest of a limit while a page is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RemainingLimit(PageLimit);

impl RemainingLimit {
    pub(crate) fn of(limit: PageLimit) -> Self {
        Self(PageLimit { entries: limit.entries.max(1), bytes: limit.bytes.max(1) })
    }

    pub(crate) fn is_used_up(self) -> bool {
        self.0.entries == 0 || self.0.bytes == 0
    }

    pub(crate) fn take(&mut self, bytes: usize) {
        self.0.entries = self.0.entries.saturating_sub(1);
        self.0.bytes = self.0.bytes.saturating_sub(bytes);
    }
}
