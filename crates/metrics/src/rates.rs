//! Rates and averages derived from counters. `None` where the denominator is zero.

use std::collections::{BTreeMap, BTreeSet};

use crate::catalogue::{
    CLEANUP_ITEMS, CLEANUP_RUNS, CPU, ENDED, EXECUTIONS, FAILURES, INACTIVITY, PROBES, REFUSED,
    STARTS_FAILED, STOP_ATTEMPTS, TIMEOUT_CLEANUPS, TIMEOUTS, WRONG_TOKENS,
};
use crate::cleanup::{
    EVICTED, LAYERS, NOT_ENDED, OLD_DELETED, ORPHANED_ENDED, ORPHANED_FOUND, SCANNED, STUCK_ENDED, SUCCEEDED,
    last_run,
};
use crate::counters::MAX;
use crate::latency::float;
use crate::{Counters, Histogram, Latency};

/// A stop attempt that proved absence.
pub(crate) const GONE: &str = "gone";
/// All stop attempts failed to prove absence.
pub(crate) const QUARANTINED: &str = "quarantined";
/// Internal counters: sandboxes with measured usage, and sums that are not exported.
pub(crate) const CPU_COUNTED: &str = "cpu_counted";
pub(crate) const MEMORY_PEAKS: &str = "memory_peak_bytes";
pub(crate) const MEMORY_COUNTED: &str = "memory_counted";

/// Prefix of refusal reasons that concern the host.
const HOST: &str = "host_";

pub(crate) fn memory_peak() -> String {
    format!("{MAX}memory_peak_bytes")
}

/// Rates between 0 and 1. `None`: there were no events.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Rates {
    /// Failed executions and failed starts, of all.
    pub failure: Option<f64>,
    pub timeout: Option<f64>,
    pub inactivity: Option<f64>,
    /// Of stop attempts with a result.
    pub stop_success: Option<f64>,
    /// Of timed-out executions and sandboxes, those that were proven gone.
    pub timeout_cleanup_success: Option<f64>,
    /// Of full probes. A failed ping is followed by one.
    pub health_check_failure: Option<f64>,
}

/// Metrics of one agent type.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct AgentMetrics {
    pub executions: u64,
    pub success_rate: Option<f64>,
    pub failure_rate: Option<f64>,
    pub execution_seconds: Option<f64>,
    pub cpu_seconds: Option<f64>,
    pub memory_peak_bytes: Option<f64>,
}

/// Resources used by all sandboxes that have ended.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Utilisation {
    pub cpu_seconds_total: Option<f64>,
    pub cpu_seconds_average: Option<f64>,
    pub memory_peak_bytes_total: Option<u64>,
    pub memory_peak_bytes_average: Option<f64>,
    pub memory_peak_bytes_max: Option<u64>,
}

/// Metrics of cleanup runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CleanupMetrics {
    pub runs: u64,
    pub success_rate: f64,
    pub scanned: u64,
    pub orphaned_found: u64,
    pub orphaned_ended: u64,
    pub stuck_ended: u64,
    pub evicted: u64,
    pub old_deleted: u64,
    pub failed: u64,
    pub seconds_average: Option<f64>,
    /// In seconds since the epoch.
    pub last_run_s: Option<u64>,
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| float(part) / float(whole))
}

impl Counters {
    #[must_use]
    pub fn rates(&self) -> Rates {
        let executions = self.executions();
        let starts = self.total(STARTS_FAILED);
        let probes = |verdict| self.get(PROBES, &["probe", verdict]);
        let judged = probes("passed") + probes("failed") + probes("unknown");
        Rates {
            failure: share(self.total(FAILURES) + starts, executions + starts),
            timeout: share(self.total(TIMEOUTS), executions),
            inactivity: share(self.total(INACTIVITY), executions),
            stop_success: share(self.get(STOP_ATTEMPTS, &[GONE]), self.total(STOP_ATTEMPTS)),
            timeout_cleanup_success: share(self.get(TIMEOUT_CLEANUPS, &[GONE]), self.total(TIMEOUT_CLEANUPS)),
            health_check_failure: share(judged - probes("passed"), judged),
        }
    }

    /// Create requests refused because the host is short of a resource, not because of a configured limit.
    #[must_use]
    pub fn refused_by_host(&self) -> u64 {
        let of_host = |labels: &[&str]| labels.first().is_some_and(|reason| reason.starts_with(HOST));
        self.by_labels(REFUSED).filter(|(labels, _)| of_host(labels)).map(|(_, number)| number).sum()
    }

    /// Requests with a token that was not valid.
    #[must_use]
    pub fn wrong_tokens(&self) -> u64 {
        self.total(WRONG_TOKENS)
    }

    /// Executions that have ended.
    #[must_use]
    pub fn executions(&self) -> u64 {
        self.total(EXECUTIONS)
    }

    #[must_use]
    pub fn created(&self) -> u64 {
        self.total(crate::catalogue::CREATED)
    }

    /// Ended sandboxes by cause.
    pub fn ended_by_cause(&self) -> impl Iterator<Item = (&str, u64)> {
        self.by_labels(ENDED).filter_map(|(labels, number)| Some((*labels.first()?, number)))
    }

    #[must_use]
    pub fn by_agent_type(&self) -> BTreeMap<String, AgentMetrics> {
        let types: BTreeSet<_> = self.by_labels(EXECUTIONS).map(|(labels, _)| labels[0].to_owned()).collect();
        types.into_iter().map(|name| (name.clone(), self.of_agents(&name))).collect()
    }

    fn of_agents(&self, name: &str) -> AgentMetrics {
        let of_type = self.by_labels(EXECUTIONS).filter(|(labels, _)| labels[0] == name);
        let executions = of_type.map(|(_, number)| number).sum();
        let failure_rate = share(self.get(FAILURES, &[name]), executions);
        let completed = self.get(EXECUTIONS, &[name, "completed"]);
        AgentMetrics {
            executions,
            success_rate: share(completed, executions),
            failure_rate,
            execution_seconds: self.histogram(Latency::Execution, &[name]).mean(),
            cpu_seconds: share(self.get(CPU, &[name]), self.get(CPU_COUNTED, &[name])).map(seconds),
            memory_peak_bytes: share(self.get(MEMORY_PEAKS, &[name]), self.get(MEMORY_COUNTED, &[name])),
        }
    }

    #[must_use]
    pub fn utilisation(&self) -> Utilisation {
        let (cpu_ms, counted) = (self.total(CPU), self.total(CPU_COUNTED));
        let (peaks, measured) = (self.total(MEMORY_PEAKS), self.total(MEMORY_COUNTED));
        Utilisation {
            cpu_seconds_total: (counted > 0).then(|| seconds(float(cpu_ms))),
            cpu_seconds_average: share(cpu_ms, counted).map(seconds),
            memory_peak_bytes_total: (measured > 0).then_some(peaks),
            memory_peak_bytes_average: share(peaks, measured),
            memory_peak_bytes_max: self.get_known(&memory_peak(), &[]),
        }
    }

    /// `None`: there was no run.
    #[must_use]
    pub fn cleanup(&self) -> Option<CleanupMetrics> {
        let runs = self.total(CLEANUP_RUNS);
        let good = self.by_labels(CLEANUP_RUNS).filter(|(labels, _)| labels.get(1) == Some(&SUCCEEDED));
        let success_rate = share(good.map(|(_, number)| number).sum(), runs)?;
        let items = |what| self.get(CLEANUP_ITEMS, &[what]);
        Some(CleanupMetrics {
            runs,
            success_rate,
            scanned: items(SCANNED),
            orphaned_found: items(ORPHANED_FOUND),
            orphaned_ended: items(ORPHANED_ENDED),
            stuck_ended: items(STUCK_ENDED),
            evicted: items(EVICTED),
            old_deleted: items(OLD_DELETED),
            failed: items(NOT_ENDED),
            seconds_average: self.total_histogram(Latency::Cleanup).mean(),
            last_run_s: self.by_labels(&last_run()).map(|(_, at)| at).max(),
        })
    }

    /// Durations of cleanup runs by layer.
    #[must_use]
    pub fn cleanup_times(&self) -> BTreeMap<&'static str, Histogram> {
        LAYERS.into_iter().map(|layer| (layer, self.histogram(Latency::Cleanup, &[layer]))).collect()
    }
}

fn seconds(ms: f64) -> f64 {
    ms / 1_000.0
}

#[cfg(test)]
mod tests;
