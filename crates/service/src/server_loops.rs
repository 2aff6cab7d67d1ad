//! What a running server does besides answering requests. Commands without a server leave it to the next server.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use pinfold_lifecycle::Timestamp;
use pinfold_metrics::Family;
use pinfold_notify::telemetry::{MetricsSource, TelemetryConfig};
use tokio::task::JoinHandle;

use crate::Service;
use crate::alert_evaluation::evaluate_loop;
use crate::log_retention::{LogRetention, log_retention_loop};
use crate::metrics_loop::{self, metrics_loop};

/// Retention and telemetry of a running server.
#[derive(Debug, Clone)]
pub struct LoopsConfig {
    pub log_retention: LogRetention,
    /// Retention of metrics over time.
    pub metrics_retention: Duration,
    /// Where traces and metrics are exported to. None: nowhere.
    pub telemetry: Option<TelemetryConfig>,
}

const METRICS_RETENTION: Duration = Duration::from_secs(7 * 24 * 3_600);

impl Default for LoopsConfig {
    fn default() -> Self {
        Self { log_retention: LogRetention::default(), metrics_retention: METRICS_RETENTION, telemetry: None }
    }
}

/// The running loops. Dropping them aborts them: the next server repeats unfinished work. Counters that are not yet in
/// the store are written by [`Service::flush_metrics`].
pub struct ServerLoops {
    _tasks: [AbortOnDrop; 4],
}

impl ServerLoops {
    #[must_use]
    pub fn begin(service: &Arc<Service>, config: &LoopsConfig) -> Self {
        if let Some(telemetry) = &config.telemetry {
            service.begin_telemetry(telemetry);
        }
        let tasks = [
            AbortOnDrop(tokio::spawn(log_retention_loop(service.clone(), config.log_retention))),
            AbortOnDrop(tokio::spawn(metrics_loop(service.clone(), config.metrics_retention))),
            AbortOnDrop(tokio::spawn(evaluate_loop(service.clone()))),
            AbortOnDrop(tokio::spawn(service.notifier.clone().run())),
        ];
        Self { _tasks: tasks }
    }
}

struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Service {
    /// Writes this process's remaining counters, after its last request.
    pub async fn flush_metrics(&self) {
        metrics_loop::flush(self).await;
    }

    fn begin_telemetry(self: &Arc<Self>, config: &TelemetryConfig) {
        let host = &self.host;
        let source: Weak<dyn MetricsSource> = Arc::downgrade(&(self.clone() as Arc<dyn MetricsSource>));
        let node = host.engine.node().to_string();
        self.telemetry.begin(config, &node, (&host.spans, self.now()), source);
    }
}

#[async_trait]
impl MetricsSource for Service {
    fn now(&self) -> Timestamp {
        Self::now(self)
    }

    async fn families(&self) -> Result<Vec<Family>, String> {
        Self::families(self).await.map_err(|failure| failure.hidden.unwrap_or(failure.detail.message))
    }
}
