//! Lifecycle events from the history, as pages or as a stream. Sequence numbers are the store's, so a reader can
//! continue at any server.

use std::sync::Arc;

use pinfold_api::{Event, EventPage};
use pinfold_lifecycle::SandboxId;
use pinfold_store::{HistoryRow, Seq};
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::change_feed::FALLBACK_POLL;
use super::convert::rfc3339;
use super::{Failure, Service};

/// Events buffered for a slow reader. The rest stays in the store.
const BUFFERED: usize = 64;
const PAGE_ROWS: usize = 500;

/// An item of an event stream.
#[derive(Debug, Clone)]
pub enum EventStreamItem {
    Event(Event),
    /// The stream ends here: continue after this sequence number.
    End {
        after: u64,
        why: String,
    },
}

impl Service {
    /// One page of events of one sandbox or of all. Removed sandboxes are included as long as their history is kept.
    pub async fn events(
        &self,
        of: Option<SandboxId>,
        after: u64,
        limit: usize,
    ) -> Result<EventPage, Failure> {
        self.check_known(of).await?;
        let mut rows = self.host.store.history(of, to_seq(after), limit.saturating_add(1)).await?;
        let more = rows.len() > limit;
        rows.truncate(limit);
        let events: Vec<_> = rows.iter().map(event).collect();
        let next = events.last().map_or(after, |event| event.seq);
        Ok(EventPage { events, next, more })
    }

    /// The sequence number of the latest event.
    pub async fn latest_event(&self) -> Result<u64, Failure> {
        Ok(from_seq(self.host.store.changes(Seq::LATEST).await?.up_to))
    }

    /// Streams all events after `after`, until the receiver is dropped.
    pub async fn follow_events(
        self: &Arc<Self>,
        of: Option<SandboxId>,
        after: u64,
    ) -> Result<mpsc::Receiver<EventStreamItem>, Failure> {
        self.check_known(of).await?;
        let (sender, receiver) = mpsc::channel(BUFFERED);
        let service = self.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = sender.closed() => {}
                () = service.send_events(of, after, &sender) => {}
            }
        });
        Ok(receiver)
    }

    async fn send_events(
        &self,
        of: Option<SandboxId>,
        mut after: u64,
        reader: &mpsc::Sender<EventStreamItem>,
    ) {
        let engine = &self.host.engine;
        let mut changes = of.map_or_else(|| engine.listen_to_all(), |id| engine.listen(id));
        let why = loop {
            changes.catch_up();
            let rows = match self.host.store.history(of, to_seq(after), PAGE_ROWS).await {
                Ok(rows) => rows,
                Err(error) => break error.to_string(),
            };
            for row in &rows {
                after = from_seq(row.seq);
                if reader.send(EventStreamItem::Event(event(row))).await.is_err() {
                    return;
                }
            }
            if rows.len() == PAGE_ROWS {
                continue;
            }
            tokio::select! {
                () = self.closing() => break "the server is shutting down; reconnect and continue".to_owned(),
                () = changes.changed() => {}
                () = tokio::time::sleep(FALLBACK_POLL) => {}
            }
        };
        // A reader that is gone does not need it.
        let _ = reader.send(EventStreamItem::End { after, why }).await;
    }

    async fn check_known(&self, of: Option<SandboxId>) -> Result<(), Failure> {
        let Some(id) = of else { return Ok(()) };
        match self.host.store.last_record(id).await? {
            Some(_) => Ok(()),
            None => self.row(id).await.map(drop),
        }
    }
}

fn to_seq(number: u64) -> Seq {
    Seq(i64::try_from(number).unwrap_or(i64::MAX))
}

fn from_seq(seq: Seq) -> u64 {
    u64::try_from(seq.0).unwrap_or(0)
}

fn event(row: &HistoryRow) -> Event {
    let mut details = match serde_json::to_value(&row.record.fact) {
        Ok(Value::Object(details)) => details,
        Ok(_) | Err(_) => Map::new(),
    };
    let name = details.remove("fact").and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default();
    Event {
        seq: from_seq(row.seq),
        at: rfc3339(row.record.at),
        sandbox_id: row.sandbox.to_string(),
        node_id: row.record.by.to_string(),
        indexes: vec!["sandbox:lifecycle".to_owned(), format!("event:{name}")],
        event: name,
        details,
    }
}
