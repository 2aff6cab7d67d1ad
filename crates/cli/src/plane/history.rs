//! What was written and what happened, and whether all is well: read here, or asked of a server elsewhere.

use pinfold_api::{
    BodyRef, Comparison, Event, EventPage, Health, HealthPart, HealthState, LogEntry, LogPage, LogSource,
};
use pinfold_engine::Reconcile;
use pinfold_lifecycle::SandboxId;
use pinfold_logs::{Cursor, Entry, Limit, Logs, Objects, Page, Source};
use pinfold_store::{HistoryRow, Seq, Store};
use serde_json::{Map, Value};

use super::{Here, Plane};
use crate::documents::moment;
use crate::failure::Failure;

/// Where logs go after their sandboxes.
const OBJECTS: &str = "objects";
/// Events read at a time.
const PAGE: usize = 1_000;

impl Plane {
    /// A page of a sandbox's log after a place, or from its beginning.
    pub(crate) async fn logs(&self, id: &str, after: &str) -> anyhow::Result<LogPage> {
        match self {
            Self::Server(server) => {
                server.client.logs(id, after).await.map_err(|error| server.judge(error).into())
            }
            Self::Here(here) => here.logs(id.parse()?, after).await,
        }
    }

    /// What happened to one sandbox or to all, after a number.
    pub(crate) async fn events(&self, id: Option<&str>, after: u64) -> anyhow::Result<EventPage> {
        match (self, id) {
            (Self::Server(server), Some(id)) => {
                server.client.events(id, after).await.map_err(|error| server.judge(error).into())
            }
            (Self::Server(server), None) => {
                Err(Failure::Elsewhere { what: "events of all", url: server.address.clone() }.into())
            }
            (Self::Here(here), id) => here.events(id.map(str::parse).transpose()?, after).await,
        }
    }

    pub(crate) async fn health(&self) -> anyhow::Result<Health> {
        match self {
            Self::Server(server) => server.client.health().await.map_err(|error| server.judge(error).into()),
            Self::Here(here) => here.health().await,
        }
    }

    /// Compares what is recorded with what is there, and repairs nothing.
    pub(crate) async fn audit(&self) -> anyhow::Result<Comparison> {
        match self {
            Self::Server(server) => server.client.audit().await.map_err(|error| server.judge(error).into()),
            Self::Here(here) => here.audit().await,
        }
    }
}

impl Here {
    async fn logs(&self, id: SandboxId, after: &str) -> anyhow::Result<LogPage> {
        let host = self.service.host();
        let objects = Objects::local(&host.data.join(OBJECTS))?;
        let logs = Logs::new(host.store.clone(), host.provider.outputs(), objects);
        let after = if after.is_empty() { Cursor::default() } else { after.parse()? };
        let Page { last_activity, entries, next, more, over } =
            logs.read(id, &after, Limit::default()).await?;
        Ok(LogPage {
            sandbox_id: id.to_string(),
            last_activity: last_activity.map(moment),
            entries: entries.iter().map(entry).collect(),
            next: next.to_string(),
            more,
            over,
            hints: Vec::new(),
        })
    }

    async fn events(&self, id: Option<SandboxId>, after: u64) -> anyhow::Result<EventPage> {
        let after = Seq(i64::try_from(after).unwrap_or(i64::MAX));
        let rows = self.service.host().store.history(id, after, PAGE).await?;
        let next = rows.last().map_or(after, |row| row.seq);
        let more = rows.len() == PAGE;
        let next = u64::try_from(next.0).unwrap_or(0);
        Ok(EventPage { events: rows.iter().map(event).collect(), next, more })
    }

    /// This process has written to the store when it began, and opened all that it needs of the host.
    async fn health(&self) -> anyhow::Result<Health> {
        let well = || HealthPart { status: HealthState::Ok, message: None };
        let sandboxes = self.service.stats().await.map_err(super::PlaneError::from)?;
        let nodes = self.service.host().store.nodes().await?.len() as u64;
        Ok(Health {
            status: HealthState::Ok,
            store: well(),
            provider: well(),
            sandboxes: Some(sandboxes),
            nodes: Some(nodes),
            memory_mb_left: None,
            disk_mb_left: None,
            at: moment(self.service.now()),
        })
    }

    async fn audit(&self) -> anyhow::Result<Comparison> {
        let host = self.service.host();
        let report = host.engine.reconcile(Reconcile::DryRun).await?;
        let store = host.store.clone();
        // It reads every row there is.
        let disagreements = tokio::task::spawn_blocking(move || store.disagreements()).await??;
        let ids = |ids: &[SandboxId]| ids.iter().map(ToString::to_string).collect();
        let bodies = report.bodies_without_record.iter();
        Ok(Comparison {
            dry_run: true,
            records: report.records as u64,
            bodies: report.bodies as u64,
            bodies_without_record: bodies
                .map(|body| BodyRef { sandbox_id: body.sandbox.to_string(), generation: body.generation.0 })
                .collect(),
            records_without_body: ids(&report.records_without_body),
            unreadable_records: ids(&report.unreadable_records),
            unreadable_marks: report.unreadable_marks,
            disagreements,
        })
    }
}

fn entry(entry: &Entry) -> LogEntry {
    LogEntry {
        seq: entry.seq.to_string(),
        at: moment(entry.at),
        source: match entry.source {
            Source::Stdout => LogSource::Stdout,
            Source::Stderr => LogSource::Stderr,
            Source::Control => LogSource::Control,
        },
        execution_id: entry.execution.map(|id| id.to_string()),
        generation: entry.generation.0,
        text: entry.text(),
        base64: entry.base64(),
    }
}

fn event(row: &HistoryRow) -> Event {
    let mut details = match serde_json::to_value(&row.record.fact) {
        Ok(Value::Object(details)) => details,
        Ok(_) | Err(_) => Map::new(),
    };
    let name = details.remove("fact").and_then(|name| name.as_str().map(str::to_owned));
    Event {
        seq: u64::try_from(row.seq.0).unwrap_or(0),
        at: moment(row.record.at),
        sandbox_id: row.sandbox.to_string(),
        node_id: row.record.by.to_string(),
        event: name.unwrap_or_default(),
        details,
    }
}
