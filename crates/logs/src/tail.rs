//! Reads a log that is still being written: records from the store, output from the provider.

use std::io;
use std::sync::Arc;

use pinfold_lifecycle::SandboxId;
use pinfold_provider::OutputLogs;
use pinfold_store::Store;

use crate::cursor::Cursor;
use crate::entry::LogEntry;
use crate::log_line::LogLine;
use crate::logs::ReadError;
use crate::merge::LogMerge;
use crate::page_limit::RemainingLimit;

/// Records that are read at once.
const RECORDS_PER_READ: usize = 256;

/// Reads on from where it stopped, without seeking again.
pub(crate) struct LogTail {
    sandbox: SandboxId,
    merge: LogMerge,
}

impl LogTail {
    /// Without `output` there is none on this host.
    pub(crate) fn after(sandbox: SandboxId, cursor: Cursor, output: Option<Arc<dyn OutputLogs>>) -> Self {
        Self { sandbox, merge: LogMerge::after(sandbox, cursor, output) }
    }

    pub(crate) fn cursor(&self) -> &Cursor {
        self.merge.cursor()
    }

    /// The entries that are there now, up to the limit.
    pub(crate) async fn entries(
        self,
        store: &dyn Store,
        left: &mut RemainingLimit,
    ) -> Result<(Self, Vec<LogEntry>), ReadError> {
        let (tail, entries, rest) = self.take(store, *left, LogMerge::next_entry, LogEntry::weight).await?;
        *left = rest;
        Ok((tail, entries))
    }

    /// The same as lines for the archive.
    pub(crate) async fn lines(
        self,
        store: &dyn Store,
        left: RemainingLimit,
    ) -> Result<(Self, Vec<LogLine>), ReadError> {
        let (tail, lines, _) = self.take(store, left, LogMerge::next_line, LogLine::weight).await?;
        Ok((tail, lines))
    }

    async fn take<T: Send + 'static>(
        mut self,
        store: &dyn Store,
        mut left: RemainingLimit,
        next: fn(&mut LogMerge) -> io::Result<Option<T>>,
        weight: fn(&T) -> usize,
    ) -> Result<(Self, Vec<T>, RemainingLimit), ReadError> {
        let mut taken = Vec::new();
        loop {
            let records =
                store.history(Some(self.sandbox), self.merge.records_after(), RECORDS_PER_READ).await?;
            let there_may_be_more = records.len() == RECORDS_PER_READ;
            self.merge.feed(records);
            let reading = tokio::task::spawn_blocking(move || {
                let mut more = Vec::new();
                while !left.is_used_up()
                    && let Some(item) = next(&mut self.merge)?
                {
                    left.take(weight(&item));
                    more.push(item);
                }
                Ok((self, more, left))
            });
            let read: io::Result<_> = reading.await.map_err(|source| ReadError::Interrupted { source })?;
            let (tail, more, rest) = read.map_err(|source| ReadError::Output { source })?;
            (self, left) = (tail, rest);
            taken.extend(more);
            if left.is_used_up() || !there_may_be_more {
                return Ok((self, taken, left));
            }
        }
    }
}
