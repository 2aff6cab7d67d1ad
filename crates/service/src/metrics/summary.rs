//! The metrics summary that the metrics API is built from.

use std::time::Duration;

use pinfold_lifecycle::Timestamp;
use pinfold_metrics::{CleanupMetrics, Counters, Gauges};
use pinfold_store::{MINUTE_MS, StoreError, floor_to_step};

use crate::{Failure, Service};

/// Metrics of all servers on the store. Rates and shares are between 0 and 1. None: not known, which is not 0.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricsSummary {
    pub at: Timestamp,
    pub window: Duration,
    pub active: u64,
    /// Sandboxes past one of their deadlines, or in quarantine.
    pub stuck: u64,
    /// Instances found without a lease and not yet proven gone.
    pub orphaned: u64,
    /// Executions that ended in the window.
    pub executions: u64,
    pub failure_rate: Option<f64>,
    pub timeout_rate: Option<f64>,
    pub inactivity_rate: Option<f64>,
    pub stop_failure_rate: Option<f64>,
    pub health_failure_rate: Option<f64>,
    /// Reserved shares of the admission limits.
    pub sandboxes_share: Option<f64>,
    pub memory_share: Option<f64>,
    pub disk_share: Option<f64>,
    pub processes_share: Option<f64>,
    /// None: no cleanup ran in the window.
    pub cleanup: Option<CleanupMetrics>,
}

impl MetricsSummary {
    pub(super) fn of(at: Timestamp, window: Duration, gauges: &Gauges, sums: &Counters) -> Self {
        let rates = sums.rates();
        Self {
            at,
            window,
            active: gauges.active,
            stuck: gauges.stuck,
            orphaned: gauges.orphaned,
            executions: sums.executions(),
            failure_rate: rates.failure,
            timeout_rate: rates.timeout,
            inactivity_rate: rates.inactivity,
            stop_failure_rate: rates.stop_success.map(|success| 1.0 - success),
            health_failure_rate: rates.health_check_failure,
            sandboxes_share: gauges.sandboxes_share(),
            memory_share: gauges.memory_share(),
            disk_share: gauges.disk_share(),
            processes_share: gauges.processes_share(),
            cleanup: sums.cleanup(),
        }
    }
}

impl Service {
    /// The metrics of the window up to now. The window starts at a full minute.
    pub async fn metrics_summary(&self, window: Duration) -> Result<MetricsSummary, Failure> {
        self.catch_up().await?;
        let gauges = self.gauges().await?;
        let sums = self.sums_of(window).await?;
        Ok(MetricsSummary::of(self.now(), window, &gauges, &sums))
    }

    pub(crate) async fn sums_of(&self, window: Duration) -> Result<Counters, StoreError> {
        let back_ms = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
        let begin = Timestamp(self.now().0.saturating_sub_unsigned(back_ms));
        let from = floor_to_step(begin, MINUTE_MS);
        let mut sums = Counters::default();
        // No upper bound: another server's clock may be ahead by a minute.
        for step in self.host.store.metric_points(from, Timestamp(i64::MAX)).await? {
            sums.merge(&Counters(step.counters));
        }
        Ok(sums)
    }
}
