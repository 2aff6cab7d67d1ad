//! Time series for the API: a closed list of names, each with one value per step.

use std::collections::BTreeMap;

use crate::latency::float;
use crate::{Counters, Latency, Percentiles};

/// A metric over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Series(&'static str);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown series; known are {}", NAMES.join(", "))]
pub struct UnknownSeries;

const NAMES: [&str; 36] = [
    "active",
    "stuck",
    "orphaned",
    "pooled",
    "created",
    "ended",
    "executions",
    "failure_rate",
    "nonzero_exit_rate",
    "limit_rate",
    "timeout_rate",
    "inactivity_rate",
    "stop_success_rate",
    "timeout_cleanup_success_rate",
    "health_check_failure_rate",
    "create_p50_seconds",
    "create_p95_seconds",
    "create_p99_seconds",
    "exec_start_p50_seconds",
    "exec_start_p95_seconds",
    "exec_start_p99_seconds",
    "stop_p50_seconds",
    "stop_p95_seconds",
    "stop_p99_seconds",
    "execution_p50_seconds",
    "execution_p95_seconds",
    "execution_p99_seconds",
    "cpu_seconds",
    "memory_peak_bytes_max",
    "memory_promised_bytes",
    "disk_promised_bytes",
    "processes_promised",
    "memory_left_bytes",
    "disk_left_bytes",
    "store_bytes",
    "cleanup_success_rate",
];

impl Series {
    pub fn parse(given: &str) -> Result<Self, UnknownSeries> {
        NAMES.into_iter().find(|name| *name == given).map(Self).ok_or(UnknownSeries)
    }

    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.into_iter().map(Self)
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        self.0
    }

    /// The value of one step. `None`: not known, or there were no events.
    #[must_use]
    pub fn value(self, counters: &Counters, gauges: &BTreeMap<String, f64>) -> Option<f64> {
        match self.0 {
            "created" => Some(float(counters.created())),
            "ended" => Some(float(counters.ended_by_cause().map(|(_, number)| number).sum())),
            "executions" => Some(float(counters.executions())),
            "failure_rate" => counters.rates().failure,
            "nonzero_exit_rate" => counters.rates().nonzero_exit,
            "limit_rate" => counters.rates().limit,
            "timeout_rate" => counters.rates().timeout,
            "inactivity_rate" => counters.rates().inactivity,
            "stop_success_rate" => counters.rates().stop_success,
            "timeout_cleanup_success_rate" => counters.rates().timeout_cleanup_success,
            "health_check_failure_rate" => counters.rates().health_check_failure,
            "cleanup_success_rate" => counters.cleanup().map(|cleanup| cleanup.success_rate),
            "create_p50_seconds" => percentiles(counters, Latency::Create).map(|it| it.p50),
            "create_p95_seconds" => percentiles(counters, Latency::Create).map(|it| it.p95),
            "create_p99_seconds" => percentiles(counters, Latency::Create).map(|it| it.p99),
            "exec_start_p50_seconds" => percentiles(counters, Latency::ExecStart).map(|it| it.p50),
            "exec_start_p95_seconds" => percentiles(counters, Latency::ExecStart).map(|it| it.p95),
            "exec_start_p99_seconds" => percentiles(counters, Latency::ExecStart).map(|it| it.p99),
            "stop_p50_seconds" => percentiles(counters, Latency::Stop).map(|it| it.p50),
            "stop_p95_seconds" => percentiles(counters, Latency::Stop).map(|it| it.p95),
            "stop_p99_seconds" => percentiles(counters, Latency::Stop).map(|it| it.p99),
            "execution_p50_seconds" => percentiles(counters, Latency::Execution).map(|it| it.p50),
            "execution_p95_seconds" => percentiles(counters, Latency::Execution).map(|it| it.p95),
            "execution_p99_seconds" => percentiles(counters, Latency::Execution).map(|it| it.p99),
            "cpu_seconds" => counters.utilisation().cpu_seconds_total,
            "memory_peak_bytes_max" => counters.utilisation().memory_peak_bytes_max.map(float),
            gauge => gauges.get(gauge).copied(),
        }
    }
}

fn percentiles(counters: &Counters, what: Latency) -> Option<Percentiles> {
    counters.total_histogram(what).percentiles()
}

#[cfg(test)]
mod tests {
    use crate::Gauges;

    use super::*;

    #[test]
    fn unknown_series_is_refused_with_the_list() {
        assert!(Series::parse("uptime").unwrap_err().to_string().contains("failure_rate"));
        assert_eq!(Series::parse("active").unwrap().name(), "active");
    }

    #[test]
    fn every_series_is_a_counter_metric_or_a_stored_gauge() {
        let gauges = Gauges {
            memory_mb_left: Some(1),
            disk_mb_left: Some(1),
            store_bytes: Some(1),
            ..Gauges::default()
        };
        let mut counters = Counters::default();
        counters.record(Latency::Create, &[], 1);
        counters.record(Latency::ExecStart, &[], 1);
        counters.record(Latency::Stop, &[], 1);
        counters.record(Latency::Execution, &["none"], 1);
        counters.count(crate::catalogue::EXECUTIONS, &["none", "completed"]);
        counters.count(crate::catalogue::STOP_ATTEMPTS, &["gone"]);
        counters.count(crate::catalogue::TIMEOUT_CLEANUPS, &["gone"]);
        counters.count(crate::catalogue::PROBES, &["probe", "passed"]);
        counters.add(crate::catalogue::CPU, &["none"], 1_500);
        counters.count(crate::rates::CPU_COUNTED, &["none"]);
        counters.add(&crate::rates::memory_peak(), &[], 9);
        counters.count(crate::catalogue::CLEANUP_RUNS, &["scheduled", "succeeded"]);

        for series in Series::all() {
            assert!(series.value(&counters, &gauges.by_name()).is_some(), "{}", series.name());
        }
        let value = |name| Series::parse(name).unwrap().value(&counters, &gauges.by_name());
        assert_eq!((value("cpu_seconds"), value("memory_peak_bytes_max")), (Some(1.5), Some(9.0)));
    }

    #[test]
    fn without_events_a_rate_is_unknown_and_a_count_is_zero() {
        let (counters, gauges) = (Counters::default(), BTreeMap::new());

        let value = |name| Series::parse(name).unwrap().value(&counters, &gauges);

        assert_eq!((value("failure_rate"), value("active"), value("create_p95_seconds")), (None, None, None));
        assert_eq!((value("cpu_seconds"), value("memory_peak_bytes_max")), (None, None));
        assert_eq!(value("executions"), Some(0.0));
    }
}
