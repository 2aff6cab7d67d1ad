//! The one translation between what the lifecycle knows and what the API says. HTTP calls it; a command without a
//! server calls it in its own process.

mod agents;
mod alerts;
mod archived;
mod audit;
mod care;
mod cleanup;
mod create;
mod diagnosis;
mod events;
mod examine;
mod executions;
mod failure;
mod files;
mod flags;
mod following;
mod health;
mod images;
mod input;
mod known_messages;
mod logs;
mod metrics;
mod news;
mod queue;
mod refused;
mod resources;
mod run;
mod sandboxes;
mod settling;
mod stop;
pub(crate) mod stuck;
mod tokens;
mod troubles;
mod view;
mod words;

use std::path::Path;

use pinfold_engine::{ApplyError, OnExit};
use pinfold_lifecycle::{SandboxId, Timestamp};
use pinfold_provider::InstanceId;
use pinfold_store::{Row, Store, Stored};
use tokio::sync::watch;

pub use agents::Run;
pub use create::{Asking, Creation};
pub use events::Followed;
pub use executions::{Ran, Started};
pub use failure::Failure;
pub use following::FollowEnd;
pub use logs::LogEvent;
pub use metrics::Figures;
pub use run::Attached;
pub use sandboxes::{Page, WaitFor, Wanted};
pub use stop::Stopped;
pub use tokens::{Caller, FirstTokenError};
pub use view::receipt;
pub use words::moment;

use crate::alerts::Desk;
use crate::telemetry::Telemetry;
use crate::{Host, Rules};

pub struct Service {
    host: Host,
    rules: Rules,
    /// Whether this process is about to end: who follows something is told to come back later.
    closing: watch::Sender<bool>,
    notes: audit::Notes,
    counting: metrics::Counting,
    alerts: Desk,
    telemetry: Telemetry,
}

/// The far end of time: what is waited for has a deadline of its own.
const FAR: Timestamp = Timestamp(i64::MAX);

impl Service {
    #[must_use]
    pub fn new(host: Host) -> Self {
        Self::with(host, Rules::default())
    }

    /// Under rules that somebody has decided on.
    #[must_use]
    pub fn with(host: Host, rules: Rules) -> Self {
        let counting = metrics::Counting::of(&rules);
        Self {
            host,
            rules,
            closing: watch::Sender::new(false),
            notes: audit::Notes::default(),
            counting,
            alerts: Desk::default(),
            telemetry: Telemetry::default(),
        }
    }

    /// For what only a process of this host can ask.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    pub(crate) fn desk(&self) -> &Desk {
        &self.alerts
    }

    pub(crate) fn telemetry(&self) -> &Telemetry {
        &self.telemetry
    }

    #[must_use]
    pub fn data(&self) -> &Path {
        &self.host.data
    }

    pub fn now(&self) -> Timestamp {
        self.host.clock.now()
    }

    /// Ends all streams.
    pub fn close_streams(&self) {
        self.closing.send_replace(true);
    }

    async fn closing(&self) {
        // The sender lives as long as this does.
        let _ = self.closing.subscribe().wait_for(|closing| *closing).await;
    }

    /// Says which sandboxes it was to end and could not prove gone in time.
    pub async fn shutdown(&self, on_exit: OnExit, wait_ms: u64) -> Result<Vec<SandboxId>, ApplyError> {
        self.close_streams();
        self.write_notes().await;
        let left = self.host.engine.shutdown(on_exit, wait_ms).await;
        self.end_telemetry().await;
        left
    }

    async fn row(&self, id: SandboxId) -> Result<Row, Failure> {
        self.host.store.load(id).await?.ok_or_else(|| Failure::unknown_sandbox(id))
    }

    async fn stored(&self, id: SandboxId) -> Result<Box<Stored>, Failure> {
        match self.row(id).await? {
            Row::Readable(stored) => Ok(stored),
            Row::Unreadable(row) => Err(Failure::unreadable(&row)),
        }
    }
}

fn body_of(stored: &Stored) -> InstanceId {
    InstanceId { sandbox: stored.sandbox.id, generation: stored.sandbox.generation() }
}
