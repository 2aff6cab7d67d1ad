//! Traces and metrics for an OTLP collector, where one is configured. Nothing waits for the collector: spans go
//! through a bounded queue that drops on overflow (`span_export.rs`), metrics are those of `/metrics`
//! (`metrics_export.rs`).

mod clock;
mod collector;
mod collector_client;
mod metrics_export;
mod operations;
mod otlp;
mod request_span;
mod span_export;
mod spans;

use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use pinfold_lifecycle::Timestamp;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

pub use collector::{Collector, CollectorAddressError, CollectorHeaderError};

pub use metrics_export::MetricsSource;
pub use request_span::RequestSpan;
pub use spans::Spans;

use collector_client::{CollectorClient, Signal};
use metrics_export::export_metrics;
use span_export::SpanExporter;

#[derive(Debug, Clone)]
pub struct TelemetryConfig {
    pub collector: Collector,
    pub traces: bool,
    pub metrics: bool,
    /// The interval between two metric exports.
    pub interval: Duration,
    /// The OTLP service name.
    pub service_name: String,
}

/// Time limit for the final flush.
const FLUSH: Duration = Duration::from_secs(2);

/// The export tasks of a running server.
#[derive(Default)]
pub struct Telemetry(Mutex<Option<ExportTasks>>);

struct ExportTasks {
    shutdown: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

/// Set when the server shuts down: export the rest and end.
#[derive(Clone)]
struct Shutdown(watch::Receiver<bool>);

impl Shutdown {
    fn is_set(&self) -> bool {
        *self.0.borrow()
    }

    async fn wait(&mut self) {
        // A dropped sender also means shutdown.
        let _ = self.0.wait_for(|shutdown| *shutdown).await;
    }
}

impl Telemetry {
    /// Starts the exports that are configured. `node` identifies this process at the collector.
    pub fn begin(
        &self,
        config: &TelemetryConfig,
        node: &str,
        (spans, now): (&Spans, Timestamp),
        metrics: Weak<dyn MetricsSource>,
    ) {
        let shutdown = watch::Sender::new(false);
        let subscribe = || Shutdown(shutdown.subscribe());
        let mut tasks = JoinSet::new();
        let resource = otlp::resource(&config.service_name, node);
        if config.traces {
            let (queue, outbox) =
                SpanExporter::new(CollectorClient::new(Signal::Traces, &config.collector), &resource);
            spans.begin(queue, now);
            tasks.spawn(outbox.export(subscribe()));
        }
        if config.metrics {
            let client = CollectorClient::new(Signal::Metrics, &config.collector);
            tasks.spawn(export_metrics(metrics, config.interval, client, resource, subscribe()));
        }
        *self.lock() = Some(ExportTasks { shutdown, tasks });
    }

    /// Flushes pending telemetry within a time limit.
    pub async fn end(&self) {
        let tasks = self.lock().take();
        let Some(ExportTasks { shutdown, mut tasks }) = tasks else { return };
        shutdown.send_replace(true);
        if timeout(FLUSH, async { while tasks.join_next().await.is_some() {} }).await.is_err() {
            tracing::warn!("the collector did not accept the last telemetry in time, dropping it");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<ExportTasks>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
