//! Metrics as the API and Prometheus show them.

use std::collections::BTreeMap;
use std::time::Duration;

use pinfold_api::{
    self as api, AgeMetrics, AgentTypeMetrics, HealthMetrics, Indicator, Latencies, Metrics, MetricsOverview,
    Percentiles, RateMetrics, UtilisationMetrics,
};
use pinfold_lifecycle::{Cause, State, Timestamp, final_state};
use pinfold_metrics::{
    AgentMetrics, CleanupMetrics, Counters, Exposition, Family, Gauges, Histogram, Latency, TextFormat,
};

use super::super::convert::rfc3339;
use super::MetricsSummary;
use crate::{Failure, Service};

/// Thresholds of the health indicator.
const DEGRADED_FAILURES: f64 = 0.10;
const DEGRADED_ORPHANS: u64 = 3;
const CRITICAL_FAILURES: f64 = 0.25;
const MINUTE: Duration = Duration::from_secs(60);
/// The longest retention.
const WEEK: Duration = Duration::from_secs(7 * 24 * 3_600);

impl Service {
    /// The metrics of a window between a minute and a week.
    pub async fn metrics(&self, window: Duration) -> Result<Metrics, Failure> {
        if !(MINUTE..=WEEK).contains(&window) {
            return Err(Failure::bad_input("window", "must be between one minute and seven days"));
        }
        self.catch_up().await?;
        let gauges = self.gauges().await?;
        let (sums, ever) = (self.sums_of(window).await?, Counters(self.host.store.metric_totals().await?));
        let summary = MetricsSummary::of(self.now(), window, &gauges, &sums);
        Ok(Metrics {
            at: rfc3339(summary.at),
            window_seconds: window.as_secs(),
            overview: overview(&summary, &gauges, &sums, &ever),
            by_agent_type: sums.by_agent_type().into_iter().map(|(name, it)| (name, agents(it))).collect(),
            utilisation: utilisation(&summary, &sums),
            health: health(&summary),
            cleanup: summary.cleanup.map(cleanup),
            latencies: Latencies {
                create: percentiles(&sums, Latency::Create),
                exec: percentiles(&sums, Latency::ExecStart),
                stop: percentiles(&sums, Latency::Stop),
                cancel: percentiles(&sums, Latency::Cancel),
                probe: percentiles(&sums, Latency::Probe),
                cleanup: percentiles(&sums, Latency::Cleanup),
                cleanup_by_layer: by_layer(&sums),
                execution: percentiles(&sums, Latency::Execution),
            },
            rates: rates(&sums),
            ages: ages(&gauges),
        })
    }

    /// All metrics as text for Prometheus.
    pub async fn exposition(&self, format: TextFormat) -> Result<String, Failure> {
        self.exposition_data().await?.text(&self.host.meter, format).map_err(Failure::internal)
    }

    /// The same as structured families, for OTLP.
    pub(crate) async fn families(&self) -> Result<Vec<Family>, Failure> {
        Ok(self.exposition_data().await?.families(&self.host.meter))
    }

    async fn exposition_data(&self) -> Result<Exposition, Failure> {
        self.catch_up().await?;
        let sums = Counters(self.host.store.metric_totals().await?);
        let gauges = self.gauges().await?;
        Ok(Exposition { counters: sums, agent_types: self.aggregator.agent_types.clone(), gauges })
    }
}

fn overview(summary: &MetricsSummary, gauges: &Gauges, sums: &Counters, ever: &Counters) -> MetricsOverview {
    let ended_as = |state: State| {
        let of_cause = |(cause, number): (&str, u64)| {
            let cause: Cause = serde_json::from_value(cause.into()).ok()?;
            (final_state(cause) == state).then_some(number)
        };
        ever.ended_by_cause().filter_map(of_cause).sum()
    };
    MetricsOverview {
        active: summary.active,
        total: gauges.totals.created,
        completed: ended_as(State::Completed),
        failed: ended_as(State::Failed),
        average_lifetime_seconds: sums.histogram(Latency::Lifetime, &[]).mean(),
        failure_rate: summary.failure_rate,
        timeout_rate: summary.timeout_rate,
    }
}

fn agents(summary: AgentMetrics) -> AgentTypeMetrics {
    AgentTypeMetrics {
        executions: summary.executions,
        success_rate: summary.success_rate,
        failure_rate: summary.failure_rate,
        average_execution_seconds: summary.execution_seconds,
        average_cpu_seconds: summary.cpu_seconds,
        average_memory_peak_bytes: summary.memory_peak_bytes,
    }
}

fn utilisation(summary: &MetricsSummary, sums: &Counters) -> UtilisationMetrics {
    let used = sums.utilisation();
    UtilisationMetrics {
        cpu_seconds_total: used.cpu_seconds_total,
        cpu_seconds_average: used.cpu_seconds_average,
        memory_peak_bytes_total: used.memory_peak_bytes_total,
        memory_peak_bytes_average: used.memory_peak_bytes_average,
        memory_peak_bytes_max: used.memory_peak_bytes_max,
        // Sandboxes have no network in this version.
        network_requests: Some(0),
        sandboxes_share: summary.sandboxes_share,
        memory_share: summary.memory_share,
        disk_share: summary.disk_share,
        processes_share: summary.processes_share,
    }
}

fn health(summary: &MetricsSummary) -> HealthMetrics {
    let failures = summary.failure_rate.unwrap_or(0.0);
    let indicator = if summary.stuck > 0 || failures > CRITICAL_FAILURES {
        Indicator::Critical
    } else if summary.orphaned > DEGRADED_ORPHANS || failures > DEGRADED_FAILURES {
        Indicator::Degraded
    } else {
        Indicator::Healthy
    };
    HealthMetrics {
        indicator,
        active: summary.active,
        stuck: summary.stuck,
        orphaned: summary.orphaned,
        failure_rate: summary.failure_rate,
    }
}

fn cleanup(summary: CleanupMetrics) -> api::CleanupMetrics {
    let last_run =
        summary.last_run_s.and_then(|at| i64::try_from(at).ok()).map(|at| at.saturating_mul(1_000));
    api::CleanupMetrics {
        runs: summary.runs,
        success_rate: summary.success_rate,
        total_scanned: summary.scanned,
        orphaned_detected: summary.orphaned_found,
        orphaned_terminated: summary.orphaned_ended,
        stuck_terminated: summary.stuck_ended,
        evicted: summary.evicted,
        old_deleted: summary.old_deleted,
        failed_attempts: summary.failed,
        average_seconds: summary.seconds_average,
        last_run_at: last_run.map(|at| rfc3339(Timestamp(at))),
    }
}

fn percentiles(sums: &Counters, what: Latency) -> Option<Percentiles> {
    percentiles_of(&sums.total_histogram(what))
}

fn by_layer(sums: &Counters) -> BTreeMap<String, Percentiles> {
    let layers = sums.cleanup_times().into_iter();
    layers.filter_map(|(layer, times)| Some((layer.to_owned(), percentiles_of(&times)?))).collect()
}

fn percentiles_of(times: &Histogram) -> Option<Percentiles> {
    let pinfold_metrics::Percentiles { p50, p95, p99 } = times.percentiles()?;
    Some(Percentiles { count: times.count(), p50, p95, p99 })
}

fn rates(sums: &Counters) -> RateMetrics {
    let rates = sums.rates();
    RateMetrics {
        failure: rates.failure,
        timeout: rates.timeout,
        inactivity: rates.inactivity,
        stop_success: rates.stop_success,
        timeout_cleanup_success: rates.timeout_cleanup_success,
        health_check_failure: rates.health_check_failure,
    }
}

fn ages(gauges: &Gauges) -> AgeMetrics {
    let [under_1_minute, under_5_minutes, under_10_minutes, under_30_minutes, under_60_minutes, older] =
        gauges.by_age;
    AgeMetrics {
        under_1_minute,
        under_5_minutes,
        under_10_minutes,
        under_30_minutes,
        under_60_minutes,
        older,
    }
}

#[cfg(test)]
mod tests {
    use pinfold_metrics::Gauges;

    use super::*;

    fn indicated(stuck: u64, orphaned: u64, failure_rate: Option<f64>) -> Indicator {
        let gauges = Gauges { stuck, orphaned, ..Gauges::default() };
        let summary =
            MetricsSummary::of(Timestamp(0), Duration::from_secs(60), &gauges, &Counters::default());
        health(&MetricsSummary { failure_rate, ..summary }).indicator
    }

    #[test]
    fn health_is_as_bad_as_its_worst_value() {
        for (stuck, orphaned, failures, indicator) in [
            (0, 0, None, Indicator::Healthy),
            (0, 3, Some(0.10), Indicator::Healthy),
            (0, 4, None, Indicator::Degraded),
            (0, 0, Some(0.11), Indicator::Degraded),
            (0, 0, Some(0.25), Indicator::Degraded),
            (0, 0, Some(0.26), Indicator::Critical),
            (1, 0, None, Indicator::Critical),
        ] {
            assert_eq!(indicated(stuck, orphaned, failures), indicator, "{stuck} {orphaned} {failures:?}");
        }
    }
}
