//! Follows a log: returns the entries that are there, then new ones as they come, until the sandbox is gone.

use std::time::Duration;

use pinfold_backoff::Backoff;
use pinfold_lifecycle::{SandboxId, Timestamp};
use tokio::time::Instant;

use crate::cursor::Cursor;
use crate::entry::LogEntry;
use crate::location::LogLocation;
use crate::logs::{LogPage, Logs, ReadError};
use crate::page_limit::{PageLimit, RemainingLimit};
use crate::tail::LogTail;

/// Reset after each entry: the poll interval grows while none comes.
const POLL_BACKOFF: Backoff = Backoff::from_ms(5, 100);
/// Whether the sandbox is gone is checked after new entries, and otherwise once in so many polls.
const POLLS_PER_GONE_CHECK: u32 = 10;

/// A reader with a position. A cancelled call loses nothing: the next one reads the same entries again.
pub struct LogFollower {
    logs: Logs,
    sandbox: SandboxId,
    cursor: Cursor,
    limit: PageLimit,
    tail: Option<(LogTail, LogLocation)>,
    last_activity: Option<Timestamp>,
    backoff: Backoff,
    empty_polls: u32,
}

impl LogFollower {
    pub(crate) fn new(logs: Logs, sandbox: SandboxId, cursor: Cursor, limit: PageLimit) -> Self {
        Self {
            logs,
            sandbox,
            cursor,
            limit,
            tail: None,
            last_activity: None,
            backoff: POLL_BACKOFF,
            empty_polls: 0,
        }
    }

    /// The next entries, as soon as there are any. An empty page means that none came in time, or that none will come
    /// (`finished`).
    pub async fn next(&mut self, within: Duration) -> Result<LogPage, ReadError> {
        let deadline = Instant::now() + within;
        loop {
            let page = self.poll().await?;
            if !page.entries.is_empty() || page.finished || Instant::now() >= deadline {
                return Ok(page);
            }
            tokio::time::sleep_until((Instant::now() + self.backoff.next_pause()).min(deadline)).await;
        }
    }

    /// The entries that are there now.
    pub(crate) async fn poll(&mut self) -> Result<LogPage, ReadError> {
        let is_first = self.last_activity.is_none();
        // Checked before the records are read: a sandbox that is gone by then has written all of them.
        let check_gone = is_first || self.empty_polls.is_multiple_of(POLLS_PER_GONE_CHECK);
        let is_gone = check_gone && self.logs.is_gone(self.sandbox).await?;
        let (entries, left) = self.take().await?;
        if is_first {
            self.last_activity = self.logs.last_activity(self.sandbox).await?;
        }
        self.last_activity = self.last_activity.max(entries.iter().map(|entry| entry.at).max());
        self.empty_polls = if entries.is_empty() { self.empty_polls + 1 } else { 0 };
        if let Some(last) = entries.last() {
            self.cursor = last.seq.clone();
            self.backoff.reset();
        }
        Ok(LogPage {
            last_activity: self.last_activity,
            next: self.cursor.clone(),
            more: left.is_used_up(),
            finished: is_gone && !left.is_used_up(),
            entries,
        })
    }

    async fn take(&mut self) -> Result<(Vec<LogEntry>, RemainingLimit), ReadError> {
        let location = self.logs.location(self.sandbox)?;
        if let Some((tail, before)) = self.tail.take()
            && before == location
            && *tail.cursor() == self.cursor
        {
            let mut left = RemainingLimit::of(self.limit);
            let (tail, entries) = tail.entries(self.logs.store.as_ref(), &mut left).await?;
            if self.logs.location(self.sandbox)? == location {
                self.tail = Some((tail, location));
                return Ok((entries, left));
            }
        }
        let (tail, entries, left) = self.logs.page(self.sandbox, &self.cursor, self.limit).await?;
        // A reader that has not reached the end of the archive starts there again.
        self.tail = (!left.is_used_up()).then_some((tail, location));
        Ok((entries, left))
    }
}
