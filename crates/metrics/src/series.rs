//! What can be asked for over time: a closed list of names, each a figure of one step.

use std::collections::BTreeMap;

use crate::latency::float;
use crate::{Latency, Percentiles, Sums};

/// A figure over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Series(&'static str);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no such figure; there are {}", NAMES.join(", "))]
pub struct UnknownSeries;

const NAMES: [&str; 34] = [
    "active",
    "stuck",
    "orphaned",
    "pooled",
    "created",
    "ended",
    "executions",
    "failure_rate",
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
    pub fn named(given: &str) -> Result<Self, UnknownSeries> {
        NAMES.into_iter().find(|name| *name == given).map(Self).ok_or(UnknownSeries)
    }

    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.into_iter().map(Self)
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        self.0
    }

    /// Of one step. None: nothing is known of it, or nothing happened that it could be told of.
    #[must_use]
    pub fn value(self, sums: &Sums, gauges: &BTreeMap<String, f64>) -> Option<f64> {
        match self.0 {
            "created" => Some(float(sums.created())),
            "ended" => Some(float(sums.ended_by_cause().map(|(_, number)| number).sum())),
            "executions" => Some(float(sums.executions())),
            "failure_rate" => sums.rates().failure,
            "timeout_rate" => sums.rates().timeout,
            "inactivity_rate" => sums.rates().inactivity,
            "stop_success_rate" => sums.rates().stop_success,
            "timeout_cleanup_success_rate" => sums.rates().timeout_cleanup_success,
            "health_check_failure_rate" => sums.rates().health_check_failure,
            "cleanup_success_rate" => sums.cleanup().map(|cleanup| cleanup.success_rate),
            "create_p50_seconds" => percentiles(sums, Latency::Create).map(|it| it.p50),
            "create_p95_seconds" => percentiles(sums, Latency::Create).map(|it| it.p95),
            "create_p99_seconds" => percentiles(sums, Latency::Create).map(|it| it.p99),
            "exec_start_p50_seconds" => percentiles(sums, Latency::ExecStart).map(|it| it.p50),
            "exec_start_p95_seconds" => percentiles(sums, Latency::ExecStart).map(|it| it.p95),
            "exec_start_p99_seconds" => percentiles(sums, Latency::ExecStart).map(|it| it.p99),
            "stop_p50_seconds" => percentiles(sums, Latency::Stop).map(|it| it.p50),
            "stop_p95_seconds" => percentiles(sums, Latency::Stop).map(|it| it.p95),
            "stop_p99_seconds" => percentiles(sums, Latency::Stop).map(|it| it.p99),
            "execution_p50_seconds" => percentiles(sums, Latency::Execution).map(|it| it.p50),
            "execution_p95_seconds" => percentiles(sums, Latency::Execution).map(|it| it.p95),
            "execution_p99_seconds" => percentiles(sums, Latency::Execution).map(|it| it.p99),
            "cpu_seconds" => sums.utilisation().cpu_seconds_total,
            "memory_peak_bytes_max" => sums.utilisation().memory_peak_bytes_max.map(float),
            gauge => gauges.get(gauge).copied(),
        }
    }
}

fn percentiles(sums: &Sums, what: Latency) -> Option<Percentiles> {
    sums.all_times(what).percentiles()
}

#[cfg(test)]
mod tests {
    use crate::Standing;

    use super::*;

    #[test]
    fn a_name_that_is_not_in_the_list_is_refused_with_the_list() {
        assert!(Series::named("uptime").unwrap_err().to_string().contains("failure_rate"));
        assert_eq!(Series::named("active").unwrap().name(), "active");
    }

    #[test]
    fn every_name_is_a_figure_or_a_gauge_that_is_kept() {
        let standing = Standing {
            memory_mb_left: Some(1),
            disk_mb_left: Some(1),
            store_bytes: Some(1),
            ..Standing::default()
        };
        let mut sums = Sums::default();
        sums.took(Latency::Create, &[], 1);
        sums.took(Latency::ExecStart, &[], 1);
        sums.took(Latency::Stop, &[], 1);
        sums.took(Latency::Execution, &["none"], 1);
        sums.count(crate::catalogue::EXECUTIONS, &["none", "completed"]);
        sums.count(crate::catalogue::STOP_ATTEMPTS, &["gone"]);
        sums.count(crate::catalogue::TIMEOUT_CLEANUPS, &["gone"]);
        sums.count(crate::catalogue::PROBES, &["probe", "passed"]);
        sums.add(crate::catalogue::CPU, &["none"], 1_500);
        sums.count(crate::rates::CPU_COUNTED, &["none"]);
        sums.add(&crate::rates::memory_peak(), &[], 9);
        sums.count(crate::catalogue::CLEANUP_RUNS, &["scheduled", "succeeded"]);

        for series in Series::all() {
            assert!(series.value(&sums, &standing.gauges()).is_some(), "{}", series.name());
        }
        let value = |name| Series::named(name).unwrap().value(&sums, &standing.gauges());
        assert_eq!((value("cpu_seconds"), value("memory_peak_bytes_max")), (Some(1.5), Some(9.0)));
    }

    #[test]
    fn where_nothing_happened_a_rate_is_not_known_and_a_count_is_none() {
        let (sums, gauges) = (Sums::default(), BTreeMap::new());

        let value = |name| Series::named(name).unwrap().value(&sums, &gauges);

        assert_eq!((value("failure_rate"), value("active"), value("create_p95_seconds")), (None, None, None));
        assert_eq!((value("cpu_seconds"), value("memory_peak_bytes_max")), (None, None));
        assert_eq!(value("executions"), Some(0.0));
    }
}
