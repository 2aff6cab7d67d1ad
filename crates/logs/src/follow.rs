//! Following a log: what is there, and then what comes, until the sandbox is gone.

use std::time::Duration;

use pinfold_lifecycle::{SandboxId, Timestamp};
use tokio::time::Instant;

use crate::cursor::Cursor;
use crate::entry::Entry;
use crate::limit::{Left, Limit};
use crate::logs::{Logs, Page, ReadError};
use crate::places::Place;
use crate::tail::Tail;

/// How soon is looked again: quickly after something came, and less and less while nothing does.
const FIRST_LOOK: Duration = Duration::from_millis(5);
const SLOWEST_LOOK: Duration = Duration::from_millis(100);
/// Whether the sandbox is gone is asked when something came, and else as seldom as this.
const LOOKS_WITHOUT_ASKING: u32 = 10;

/// A reader with a place. A call that is given up loses nothing: the next one reads it again.
pub struct Follow {
    logs: Logs,
    sandbox: SandboxId,
    cursor: Cursor,
    limit: Limit,
    tail: Option<(Tail, Place)>,
    last_activity: Option<Timestamp>,
    pause: Duration,
    quiet_looks: u32,
}

impl Follow {
    pub(crate) fn new(logs: Logs, sandbox: SandboxId, cursor: Cursor, limit: Limit) -> Self {
        Self {
            logs,
            sandbox,
            cursor,
            limit,
            tail: None,
            last_activity: None,
            pause: FIRST_LOOK,
            quiet_looks: 0,
        }
    }

    /// The next entries, as soon as there are any. An empty page means that none came in time, or that none will
    /// come any more (`over`).
    pub async fn next(&mut self, within: Duration) -> Result<Page, ReadError> {
        let deadline = Instant::now() + within;
        loop {
            let page = self.look().await?;
            if !page.entries.is_empty() || page.over || Instant::now() >= deadline {
                return Ok(page);
            }
            tokio::time::sleep_until((Instant::now() + self.pause).min(deadline)).await;
            self.pause = (self.pause * 2).min(SLOWEST_LOOK);
        }
    }

    /// What is there now.
    pub(crate) async fn look(&mut self) -> Result<Page, ReadError> {
        let is_first = self.last_activity.is_none();
        // Before the records are read: what is gone then has written all of them.
        let asks = is_first || self.quiet_looks.is_multiple_of(LOOKS_WITHOUT_ASKING);
        let is_gone = asks && self.logs.is_gone(self.sandbox).await?;
        let (entries, left) = self.take().await?;
        if is_first {
            self.last_activity = self.logs.last_activity(self.sandbox).await?;
        }
        self.last_activity = self.last_activity.max(entries.iter().map(|entry| entry.at).max());
        self.quiet_looks = if entries.is_empty() { self.quiet_looks + 1 } else { 0 };
        if let Some(last) = entries.last() {
            self.cursor = last.seq.clone();
            self.pause = FIRST_LOOK;
        }
        Ok(Page {
            last_activity: self.last_activity,
            next: self.cursor.clone(),
            more: left.is_none(),
            over: is_gone && !left.is_none(),
            entries,
        })
    }

    async fn take(&mut self) -> Result<(Vec<Entry>, Left), ReadError> {
        let place = self.logs.place(self.sandbox)?;
        if let Some((tail, before)) = self.tail.take()
            && before == place
            && *tail.cursor() == self.cursor
        {
            let mut left = Left::of(self.limit);
            let (tail, entries) = tail.entries(self.logs.store.as_ref(), &mut left).await?;
            if self.logs.place(self.sandbox)? == place {
                self.tail = Some((tail, place));
                return Ok((entries, left));
            }
        }
        let (tail, entries, left) = self.logs.page(self.sandbox, &self.cursor, self.limit).await?;
        // One that has not come to the end of what was moved begins there again.
        self.tail = (!left.is_none()).then_some((tail, place));
        Ok((entries, left))
    }
}
