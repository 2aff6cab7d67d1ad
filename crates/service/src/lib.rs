//! What can be asked of Pinfold, without HTTP: every operation of the API on an engine, and the loops of a server.
//!
//! - [`Host`] is an engine with its store, provider, logs and images on one data directory.
//! - [`Service`] implements every operation of the API. It translates between lifecycle, engine and store types and the
//!   API's types. The HTTP server (`pinfold-http`) calls it; a command without a server calls it in its own process.
//! - [`ServerLoops`] are what a running server does besides answering: metrics, log retention, alerts, telemetry.
//!
//! ```text
//!  client ──HTTP──▶ http ──▶ Service ──▶ Host ──▶ Engine ──▶ Provider ──▶ instances
//!                              ▲  ▲        │         │
//!  pinfold (no server) ────────┘  │        │         └─────▶ Store ◀── other servers
//!                                 │        └───────────────▶ Logs, artifacts, images
//!  ServerLoops ───────────────────┴──▶ notify ──▶ receivers, collector
//! ```

mod admission_errors;
mod agents;
mod alert_evaluation;
mod alerts;
mod archived_output;
mod artifacts;
mod audit_log;
mod change_feed;
mod cleanup;
mod cleanup_recorder;
mod config;
mod consistency;
mod convert;
mod create;
mod diagnosis;
mod engine_observer;
mod events;
mod examine;
mod executions;
mod failure;
mod files;
mod flags;
mod health;
mod host;
mod images;
mod log_patterns;
mod log_retention;
mod logs;
mod metrics;
mod metrics_loop;
mod object_store;
mod output;
mod queue;
mod resources;
mod run;
mod sandboxes;
mod server_loops;
mod settle_wait;
mod stale_files;
mod stdin;
mod stop;
mod stuck;
mod temporary_files;
mod tokens;
mod usage_verdict;
mod view;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pinfold_engine::{ApplyError, OnExit};
use pinfold_lifecycle::{SandboxId, Timestamp};
use pinfold_metrics::Route;
use pinfold_notify::Notifier;
use pinfold_notify::telemetry::{Spans, Telemetry};
use pinfold_provider::InstanceId;
use pinfold_store::{Row, StoredSandbox};
use tokio::sync::watch;

pub use agents::AgentRunIds;
pub use config::{FlagThresholds, IdempotencyKeyRetention, ServiceConfig};
pub use convert::{rfc3339, role_name};
pub use create::{CreateOptions, CreateOutcome, check_request};
pub use events::EventStreamItem;
pub use executions::{ExecOutcome, StartedExecution};
pub use failure::Failure;
pub use host::{Host, HostConfig, HostError, HostParts, ImageStoreLocation, Wrap};
pub use log_retention::LogRetention;
pub use logs::LogEvent;
pub use metrics::MetricsSummary;
pub use object_store::{BucketConfig, ObjectStoreConfig, OpenObjectStoreError};
pub use output::StreamEnd;
pub use run::AttachedRun;
pub use sandboxes::{SandboxPage, SandboxQuery, WaitFor};
pub use server_loops::{LoopsConfig, ServerLoops};
pub use stop::StopResult;
pub use tokens::{Caller, FirstTokenError};
pub use view::receipt;

use alert_evaluation::AlertRuntime;

pub struct Service {
    host: Host,
    config: ServiceConfig,
    /// True when this process is about to end: streams end, and their clients are told to reconnect.
    closing: watch::Sender<bool>,
    audit_buffer: audit_log::AuditBuffer,
    aggregator: metrics::MetricsAggregator,
    alerts: AlertRuntime,
    notifier: Arc<Notifier>,
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
        let notifier = Notifier::new(host.store.clone(), host.clock.clone(), config.alerts.clone());
        Self {
            host,
            config,
            closing: watch::Sender::new(false),
            audit_buffer: audit_log::AuditBuffer::default(),
            aggregator,
            alerts: AlertRuntime::default(),
            notifier: Arc::new(notifier),
            telemetry: Telemetry::default(),
        }
    }

    /// The host, for callers in the same process.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    #[must_use]
    pub fn data(&self) -> &Path {
        &self.host.data
    }

    pub fn now(&self) -> Timestamp {
        self.host.clock.now()
    }

    /// The spans of this process, for the layer that traces requests.
    #[must_use]
    pub fn spans(&self) -> &Spans {
        &self.host.spans
    }

    /// Counts an answered request.
    pub fn record_latency(&self, route: &Route, took: Duration) {
        self.host.meter.request_answered(route, took);
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
        self.telemetry.end().await;
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
