//! What happened, from the history: in pages, or followed as it comes. Places are those of the store, so that any
//! reader can come back, to any process.

use std::sync::Arc;

use pinfold_api::{Event, EventPage};
use pinfold_lifecycle::SandboxId;
use pinfold_store::{HistoryRow, Seq, Store};
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::news::ANYWAY;
use super::words::moment;
use super::{Failure, Service};

/// Events that wait for a slow reader. More wait in the store.
const AHEAD: usize = 64;
const AT_ONCE: usize = 500;

/// What a reader who follows is given.
#[derive(Debug, Clone)]
pub enum Followed {
    Event(Event),
    /// The stream ends here: read on after this place.
    Ends {
        after: u64,
        why: String,
    },
}

impl Service {
    /// Of one sandbox, or of all. Also of those that are forgotten, as long as the history is kept.
    pub async fn events(
        &self,
        of: Option<SandboxId>,
        after: u64,
        limit: usize,
    ) -> Result<EventPage, Failure> {
        self.must_be_known(of).await?;
        let mut rows = self.host.store.history(of, place(after), limit.saturating_add(1)).await?;
        let more = rows.len() > limit;
        rows.truncate(limit);
        let events: Vec<_> = rows.iter().map(event).collect();
        let next = events.last().map_or(after, |event| event.seq);
        Ok(EventPage { events, next, more })
    }

    /// Where the history ends now.
    pub async fn latest_event(&self) -> Result<u64, Failure> {
        Ok(number(self.host.store.changes(Seq::LATEST).await?.seen))
    }

    /// Everything after a place, for as long as somebody reads.
    pub async fn follow_events(
        self: &Arc<Self>,
        of: Option<SandboxId>,
        after: u64,
    ) -> Result<mpsc::Receiver<Followed>, Failure> {
        self.must_be_known(of).await?;
        let (sender, receiver) = mpsc::channel(AHEAD);
        let service = self.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = sender.closed() => {}
                () = service.pump_events(of, after, &sender) => {}
            }
        });
        Ok(receiver)
    }

    async fn pump_events(&self, of: Option<SandboxId>, mut after: u64, reader: &mpsc::Sender<Followed>) {
        let engine = &self.host.engine;
        let mut changes = of.map_or_else(|| engine.listen_to_all(), |id| engine.listen(id));
        let why = loop {
            changes.catch_up();
            let rows = match self.host.store.history(of, place(after), AT_ONCE).await {
                Ok(rows) => rows,
                Err(error) => break error.to_string(),
            };
            for row in &rows {
                after = number(row.seq);
                if reader.send(Followed::Event(event(row))).await.is_err() {
                    return;
                }
            }
            if rows.len() == AT_ONCE {
                continue;
            }
            tokio::select! {
                () = self.closing() => break "the server is being stopped; come back and read on".to_owned(),
                () = changes.changed() => {}
                () = tokio::time::sleep(ANYWAY) => {}
            }
        };
        // Who is gone does not need it.
        let _ = reader.send(Followed::Ends { after, why }).await;
    }

    async fn must_be_known(&self, of: Option<SandboxId>) -> Result<(), Failure> {
        let Some(id) = of else { return Ok(()) };
        match self.host.store.last_record(id).await? {
            Some(_) => Ok(()),
            None => self.row(id).await.map(drop),
        }
    }
}

fn place(number: u64) -> Seq {
    Seq(i64::try_from(number).unwrap_or(i64::MAX))
}

fn number(place: Seq) -> u64 {
    u64::try_from(place.0).unwrap_or(0)
}

fn event(row: &HistoryRow) -> Event {
    let mut details = match serde_json::to_value(&row.record.fact) {
        Ok(Value::Object(details)) => details,
        Ok(_) | Err(_) => Map::new(),
    };
    let name = details.remove("fact").and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default();
    Event {
        seq: number(row.seq),
        at: moment(row.record.at),
        sandbox_id: row.sandbox.to_string(),
        node_id: row.record.by.to_string(),
        indexes: vec!["sandbox:lifecycle".to_owned(), format!("event:{name}")],
        event: name,
        details,
    }
}
