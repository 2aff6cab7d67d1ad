//! The operations of the API, without HTTP. It translates between lifecycle, engine and store types and the API's
//! types. The HTTP server calls it; a command without a server calls it in its own process.

mod admission_errors;
mod agents;
mod alerts;
mod archived_output;
mod audit_log;
mod change_feed;
mod cleanup;
mod consistency;
mod convert;
mod create;
mod diagnosis;
mod events;
mod examine;
mod executions;
mod failure;
mod files;
mod flags;
mod health;
mod images;
mod log_patterns;
mod logs;
mod metrics;
mod output;
mod queue;
mod resources;
mod run;
mod sandboxes;
mod settle_wait;
mod stdin;
mod stop;
pub(crate) mod stuck;
mod tokens;
mod usage_verdict;
mod view;

use std::path::Path;

use pinfold_engine::{ApplyError, OnExit};
use pinfold_lifecycle::{SandboxId, Timestamp};
use pinfold_provider::InstanceId;
use pinfold_store::{Row, Store, StoredSandbox};
use tokio::sync::watch;

pub use agents::AgentRunIds;
pub use convert::rfc3339;
pub(crate) use convert::{role_name, serde_name};
pub use create::{CreateOptions, CreateOutcome};
pub use events::EventStreamItem;
pub use executions::{ExecOutcome, StartedExecution};
pub use failure::Failure;
pub use logs::LogEvent;
pub use metrics::MetricsSummary;
pub use output::StreamEnd;
pub use run::AttachedRun;
pub use sandboxes::{SandboxPage, SandboxQuery, WaitFor};
pub use stop::StopResult;
pub use tokens::{Caller, FirstTokenError};
pub use view::receipt;

use crate::alerts::AlertRuntime;
use crate::telemetry::Telemetry;
use crate::{Host, ServiceConfig};

pub struct Service {
    host: Host,
    config: ServiceConfig,
    /// True when this process is about to end: streams end, and their clients are told to reconnect.
    closing: watch::Sender<bool>,
    audit_buffer: audit_log::AuditBuffer,
    aggregator: metrics::MetricsAggregator,
    alerts: AlertRuntime,
    telemetry: Telemetry,
}

/// No deadline: what is awaited has a deadline of its own.
const NO_DEADLINE: Timestamp = Timestamp(i64::MAX);

impl Service {
    #[must_use]
    pub fn new(host: Host) -> Self {
        Self::with(host, ServiceConfig::default())
    }

    /// A service with the operator's settings.
    #[must_use]
    pub fn with(host: Host, config: ServiceConfig) -> Self {
        let aggregator = metrics::MetricsAggregator::of(&config);
        Self {
            host,
            config,
            closing: watch::Sender::new(false),
            audit_buffer: audit_log::AuditBuffer::default(),
            aggregator,
            alerts: AlertRuntime::default(),
            telemetry: Telemetry::default(),
        }
    }

    /// The host, for callers in the same process.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    pub(crate) fn config(&self) -> &ServiceConfig {
        &self.config
    }

    pub(crate) fn alert_runtime(&self) -> &AlertRuntime {
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

    /// Ends all event, log and output streams.
    pub fn close_streams(&self) {
        self.closing.send_replace(true);
    }

    async fn closing(&self) {
        // `self` owns the sender, so the channel stays open.
        let _ = self.closing.subscribe().wait_for(|closing| *closing).await;
    }

    /// Stops the engine. Returns the sandboxes that should have been stopped and were not proven gone in time.
    pub async fn shutdown(&self, on_exit: OnExit, wait_ms: u64) -> Result<Vec<SandboxId>, ApplyError> {
        self.close_streams();
        self.flush_audit_log().await;
        let left = self.host.engine.shutdown(on_exit, wait_ms).await;
        self.end_telemetry().await;
        left
    }

    async fn row(&self, id: SandboxId) -> Result<Row, Failure> {
        self.host.store.load(id).await?.ok_or_else(|| Failure::unknown_sandbox(id))
    }

    async fn stored(&self, id: SandboxId) -> Result<Box<StoredSandbox>, Failure> {
        match self.row(id).await? {
            Row::Readable(stored) => Ok(stored),
            Row::Unreadable(row) => Err(Failure::unreadable(&row)),
        }
    }
}

fn instance_of(stored: &StoredSandbox) -> InstanceId {
    InstanceId { sandbox: stored.sandbox.id, generation: stored.sandbox.generation() }
}
