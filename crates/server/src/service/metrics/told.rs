//! Figures as the API and Prometheus are told them.

use std::collections::BTreeMap;
use std::time::Duration;

use pinfold_api::{
    AgeMetrics, AgentTypeMetrics, CleanupMetrics, HealthMetrics, Indicator, Latencies, Metrics,
    MetricsOverview, Percentiles, RateMetrics, UtilisationMetrics,
};
use pinfold_lifecycle::{Cause, State, Timestamp, final_state};
use pinfold_metrics::{AgentFigures, CleanupFigures, Exposition, Family, Histogram, Latency, Standing, Sums};
use pinfold_store::Measures;

use super::super::words::moment;
use super::Figures;
use crate::{Failure, Service};

/// More of them fail, or are orphaned, than can be by chance.
const DEGRADED_FAILURES: f64 = 0.10;
const DEGRADED_ORPHANS: u64 = 3;
const CRITICAL_FAILURES: f64 = 0.25;
const MINUTE: Duration = Duration::from_secs(60);
/// As long as anything is kept.
const WEEK: Duration = Duration::from_secs(7 * 24 * 3_600);

impl Service {
    /// As far back as is said, from a minute to a week.
    pub async fn metrics(&self, window: Duration) -> Result<Metrics, Failure> {
        if !(MINUTE..=WEEK).contains(&window) {
            return Err(Failure::bad_input(
                "window",
                "it is shorter than a minute or longer than seven days",
            ));
        }
        self.catch_up().await?;
        let standing = self.standing().await?;
        let (sums, ever) = (self.sums_of(window).await?, Sums(self.host.store.counted().await?));
        let figures = Figures::of(self.now(), window, &standing, &sums);
        Ok(Metrics {
            at: moment(figures.at),
            window_seconds: window.as_secs(),
            overview: overview(&figures, &standing, &sums, &ever),
            by_agent_type: sums.by_agent_type().into_iter().map(|(name, it)| (name, agents(it))).collect(),
            utilisation: utilisation(&figures, &sums),
            health: health(&figures),
            cleanup: figures.cleanup.map(cleanup),
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
            ages: ages(&standing),
        })
    }

    /// What Prometheus reads.
    pub async fn exposition(&self) -> Result<String, Failure> {
        self.all_there_is().await?.text(&self.host.meter).map_err(Failure::internal)
    }

    /// The same for those who speak otherwise.
    pub(crate) async fn families(&self) -> Result<Vec<Family>, Failure> {
        Ok(self.all_there_is().await?.families(&self.host.meter))
    }

    async fn all_there_is(&self) -> Result<Exposition, Failure> {
        self.catch_up().await?;
        let sums = Sums(self.host.store.counted().await?);
        let standing = self.standing().await?;
        Ok(Exposition { sums, agent_types: self.counting.agent_types.clone(), standing })
    }
}

fn overview(figures: &Figures, standing: &Standing, sums: &Sums, ever: &Sums) -> MetricsOverview {
    let ended_as = |state: State| {
        let of_cause = |(cause, number): (&str, u64)| {
            let cause: Cause = serde_json::from_value(cause.into()).ok()?;
            (final_state(cause) == state).then_some(number)
        };
        ever.ended_by_cause().filter_map(of_cause).sum()
    };
    MetricsOverview {
        active: figures.active,
        total: standing.totals.created,
        completed: ended_as(State::Completed),
        failed: ended_as(State::Failed),
        average_lifetime_seconds: sums.times(Latency::Lifetime, &[]).mean(),
        failure_rate: figures.failure_rate,
        timeout_rate: figures.timeout_rate,
    }
}

fn agents(figures: AgentFigures) -> AgentTypeMetrics {
    AgentTypeMetrics {
        executions: figures.executions,
        success_rate: figures.success_rate,
        failure_rate: figures.failure_rate,
        average_execution_seconds: figures.execution_seconds,
        average_cpu_seconds: figures.cpu_seconds,
        average_memory_peak_bytes: figures.memory_peak_bytes,
    }
}

fn utilisation(figures: &Figures, sums: &Sums) -> UtilisationMetrics {
    let used = sums.utilisation();
    UtilisationMetrics {
        cpu_seconds_total: used.cpu_seconds_total,
        cpu_seconds_average: used.cpu_seconds_average,
        memory_peak_bytes_total: used.memory_peak_bytes_total,
        memory_peak_bytes_average: used.memory_peak_bytes_average,
        memory_peak_bytes_max: used.memory_peak_bytes_max,
        // There is no network in this version.
        network_requests: Some(0),
        sandboxes_share: figures.sandboxes_share,
        memory_share: figures.memory_share,
        disk_share: figures.disk_share,
        processes_share: figures.processes_share,
    }
}

fn health(figures: &Figures) -> HealthMetrics {
    let failures = figures.failure_rate.unwrap_or(0.0);
    let indicator = if figures.stuck > 0 || failures > CRITICAL_FAILURES {
        Indicator::Critical
    } else if figures.orphaned > DEGRADED_ORPHANS || failures > DEGRADED_FAILURES {
        Indicator::Degraded
    } else {
        Indicator::Healthy
    };
    HealthMetrics {
        indicator,
        active: figures.active,
        stuck: figures.stuck,
        orphaned: figures.orphaned,
        failure_rate: figures.failure_rate,
    }
}

fn cleanup(figures: CleanupFigures) -> CleanupMetrics {
    let last_run =
        figures.last_run_s.and_then(|at| i64::try_from(at).ok()).map(|at| at.saturating_mul(1_000));
    CleanupMetrics {
        runs: figures.runs,
        success_rate: figures.success_rate,
        total_scanned: figures.scanned,
        orphaned_detected: figures.orphaned_found,
        orphaned_terminated: figures.orphaned_ended,
        stuck_terminated: figures.stuck_ended,
        evicted: figures.evicted,
        old_deleted: figures.old_deleted,
        failed_attempts: figures.failed,
        average_seconds: figures.seconds_average,
        last_run_at: last_run.map(|at| moment(Timestamp(at))),
    }
}

fn percentiles(sums: &Sums, what: Latency) -> Option<Percentiles> {
    told_as(&sums.all_times(what))
}

fn by_layer(sums: &Sums) -> BTreeMap<String, Percentiles> {
    let layers = sums.cleanup_times().into_iter();
    layers.filter_map(|(layer, times)| Some((layer.to_owned(), told_as(&times)?))).collect()
}

fn told_as(times: &Histogram) -> Option<Percentiles> {
    let pinfold_metrics::Percentiles { p50, p95, p99 } = times.percentiles()?;
    Some(Percentiles { count: times.count(), p50, p95, p99 })
}

fn rates(sums: &Sums) -> RateMetrics {
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

fn ages(standing: &Standing) -> AgeMetrics {
    let [under_1_minute, under_5_minutes, under_10_minutes, under_30_minutes, under_60_minutes, older] =
        standing.by_age;
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
    use pinfold_metrics::Standing;

    use super::*;

    fn indicated(stuck: u64, orphaned: u64, failure_rate: Option<f64>) -> Indicator {
        let standing = Standing { stuck, orphaned, ..Standing::default() };
        let figures = Figures::of(Timestamp(0), Duration::from_secs(60), &standing, &Sums::default());
        health(&Figures { failure_rate, ..figures }).indicator
    }

    #[test]
    fn health_is_as_bad_as_its_worst_figure() {
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
