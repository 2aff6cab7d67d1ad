//! Reading what is still being written: records from the store, output from the keepers' files.

use std::io;
use std::path::PathBuf;

use pinfold_lifecycle::SandboxId;
use pinfold_store::Store;

use crate::cursor::Cursor;
use crate::entry::Entry;
use crate::limit::Left;
use crate::line::Line;
use crate::logs::ReadError;
use crate::merge::Merge;

/// How many records are asked for at once.
const RECORDS: usize = 256;

/// Reads on from where it left off, without looking for the place again.
pub(crate) struct Tail {
    sandbox: SandboxId,
    merge: Merge,
}

impl Tail {
    pub(crate) fn after(sandbox: SandboxId, cursor: Cursor, directory: Option<PathBuf>) -> Self {
        Self { sandbox, merge: Merge::after(cursor, directory) }
    }

    pub(crate) fn cursor(&self) -> &Cursor {
        self.merge.cursor()
    }

    /// What is there now, as far as the limit goes.
    pub(crate) async fn entries(
        self,
        store: &dyn Store,
        left: &mut Left,
    ) -> Result<(Self, Vec<Entry>), ReadError> {
        let (tail, entries, rest) = self.take(store, *left, Merge::next_entry, Entry::weight).await?;
        *left = rest;
        Ok((tail, entries))
    }

    /// The same, as it is to be kept.
    pub(crate) async fn lines(self, store: &dyn Store, left: Left) -> Result<(Self, Vec<Line>), ReadError> {
        let (tail, lines, _) = self.take(store, left, Merge::next_line, Line::weight).await?;
        Ok((tail, lines))
    }

    async fn take<T: Send + 'static>(
        mut self,
        store: &dyn Store,
        mut left: Left,
        next: fn(&mut Merge) -> io::Result<Option<T>>,
        weight: fn(&T) -> usize,
    ) -> Result<(Self, Vec<T>, Left), ReadError> {
        let mut taken = Vec::new();
        loop {
            let records = store.history(Some(self.sandbox), self.merge.records_after(), RECORDS).await?;
            let there_may_be_more = records.len() == RECORDS;
            self.merge.feed(records);
            let reading = tokio::task::spawn_blocking(move || {
                let mut more = Vec::new();
                while !left.is_none()
                    && let Some(item) = next(&mut self.merge)?
                {
                    left.take(weight(&item));
                    more.push(item);
                }
                Ok((self, more, left))
            });
            let read: io::Result<_> = reading.await.map_err(|_| ReadError::Interrupted)?;
            let (tail, more, rest) = read.map_err(|source| ReadError::Output { source })?;
            (self, left) = (tail, rest);
            taken.extend(more);
            if left.is_none() || !there_may_be_more {
                return Ok((self, taken, left));
            }
        }
    }
}
