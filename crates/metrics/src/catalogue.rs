//! The catalogue of all metrics: name, kind, labels, scope and help text. The Prometheus text, the documentation and
//! the tests of names all use this list. A released name never changes.

/// One metric. The name includes the unit, but not `_total`, which is appended to counters in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    pub name: &'static str,
    pub kind: Kind,
    pub labels: &'static [&'static str],
    pub scope: Scope,
    pub help: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    /// In seconds.
    Histogram,
}

/// Whose values a metric shows, if several servers share a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Of all sandboxes on the store. Every server reports the same value, so use one of them and not their sum.
    Fleet,
    /// Of the answering process.
    Process,
}

pub(crate) const CREATED: &str = "pinfold_sandboxes_created";
pub(crate) const DESTROYED: &str = "pinfold_sandboxes_destroyed";
pub(crate) const ATTESTED: &str = "pinfold_sandboxes_attested";
pub(crate) const ENDED: &str = "pinfold_sandboxes_ended";
pub(crate) const STARTS_FAILED: &str = "pinfold_starts_failed";
pub(crate) const ATTEMPTS_FAILED: &str = "pinfold_attempts_failed";
pub(crate) const EXECUTIONS: &str = "pinfold_executions";
pub(crate) const FAILURES: &str = "pinfold_execution_failures";
pub(crate) const TIMEOUTS: &str = "pinfold_execution_timeouts";
pub(crate) const INACTIVITY: &str = "pinfold_execution_inactivity";
pub(crate) const STOP_ATTEMPTS: &str = "pinfold_stop_attempts";
pub(crate) const TIMEOUT_CLEANUPS: &str = "pinfold_timeout_cleanups";
pub(crate) const QUARANTINES: &str = "pinfold_quarantines";
pub(crate) const PROBES: &str = "pinfold_probes";
pub(crate) const REFUSED: &str = "pinfold_admissions_refused";
pub(crate) const WRONG_TOKENS: &str = "pinfold_wrong_tokens";
pub(crate) const ORPHANS: &str = "pinfold_orphans_found";
pub(crate) const CLEANUP_RUNS: &str = "pinfold_cleanup_runs";
pub(crate) const CLEANUP_ITEMS: &str = "pinfold_cleanup_items";
pub(crate) const CLEANUP_LAST: &str = "pinfold_cleanup_last_run_timestamp_seconds";
pub(crate) const CPU: &str = "pinfold_sandbox_cpu_seconds";

pub(crate) const SANDBOXES: &str = "pinfold_sandboxes";
pub(crate) const ACTIVE: &str = "pinfold_sandboxes_active";
pub(crate) const STUCK: &str = "pinfold_sandboxes_stuck";
pub(crate) const ORPHANED: &str = "pinfold_sandboxes_orphaned";
pub(crate) const POOLED: &str = "pinfold_sandboxes_pooled";
pub(crate) const LIMIT: &str = "pinfold_sandboxes_limit";
pub(crate) const BY_AGE: &str = "pinfold_sandboxes_by_age";
pub(crate) const MEMORY_ALLOCATED: &str = "pinfold_memory_allocated_bytes";
pub(crate) const MEMORY_LIMIT: &str = "pinfold_memory_limit_bytes";
pub(crate) const MEMORY_FREE: &str = "pinfold_memory_free_bytes";
pub(crate) const HOST_MEMORY: &str = "pinfold_host_memory_bytes";
pub(crate) const DISK_ALLOCATED: &str = "pinfold_disk_allocated_bytes";
pub(crate) const DISK_LIMIT: &str = "pinfold_disk_limit_bytes";
pub(crate) const DISK_FREE: &str = "pinfold_disk_free_bytes";
pub(crate) const HOST_DISK: &str = "pinfold_host_disk_bytes";
pub(crate) const PROCESSES_ALLOCATED: &str = "pinfold_processes_allocated";
pub(crate) const PROCESSES_LIMIT: &str = "pinfold_processes_limit";
pub(crate) const PROCESSES_FREE: &str = "pinfold_processes_free";
pub(crate) const HOST_PROCESSES: &str = "pinfold_host_processes_limit";
pub(crate) const STORE: &str = "pinfold_store_bytes";
pub(crate) const NODES: &str = "pinfold_nodes";
pub(crate) const HTTP: &str = "pinfold_http_request_seconds";

use Kind::{Counter, Gauge, Histogram};
use Scope::{Fleet, Process};

const fn metric(
    name: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
    scope: Scope,
    help: &'static str,
) -> Metric {
    Metric { name, kind, labels, scope, help }
}

/// In output order.
pub const CATALOGUE: &[Metric] = &[
    metric(CREATED, Counter, &[], Fleet, "Sandboxes created, stray instances included"),
    metric(DESTROYED, Counter, &[], Fleet, "Sandboxes proven gone, or attested to be"),
    metric(ATTESTED, Counter, &[], Fleet, "Sandboxes gone by an operator's attestation alone"),
    metric(ENDED, Counter, &["cause"], Fleet, "Sandboxes that ended, by cause"),
    metric(STARTS_FAILED, Counter, &[], Fleet, "Sandboxes that ended before they were ready and ran nothing"),
    metric(ATTEMPTS_FAILED, Counter, &["cause"], Fleet, "Failed instances whose executions are retried"),
    metric(EXECUTIONS, Counter, &["agent_type", "cause"], Fleet, "Executions that ended, by their cause"),
    metric(
        FAILURES,
        Counter,
        &["agent_type"],
        Fleet,
        "Executions that failed, were lost, took too long or exited with an error",
    ),
    metric(
        TIMEOUTS,
        Counter,
        &["agent_type"],
        Fleet,
        "Executions that timed out: time limit, inactivity, or the end of the sandbox's life",
    ),
    metric(INACTIVITY, Counter, &["agent_type"], Fleet, "Executions that timed out by inactivity"),
    metric(
        STOP_ATTEMPTS,
        Counter,
        &["outcome"],
        Fleet,
        "Stop attempts by outcome: gone, or why absence was not proven",
    ),
    metric(
        TIMEOUT_CLEANUPS,
        Counter,
        &["outcome"],
        Fleet,
        "Cleanups after a timeout by outcome: gone or quarantined",
    ),
    metric(
        QUARANTINES,
        Counter,
        &[],
        Fleet,
        "Instances quarantined because no stop attempt proved them gone",
    ),
    metric(PROBES, Counter, &["kind", "verdict"], Fleet, "Probes and pings of instances by verdict"),
    metric(
        REFUSED,
        Counter,
        &["reason"],
        Fleet,
        "Create requests refused, by the limit or resource that was short",
    ),
    metric(WRONG_TOKENS, Counter, &[], Fleet, "Requests with a token that is malformed, unknown or revoked"),
    metric(ORPHANS, Counter, &[], Fleet, "Instances found without a lease"),
    metric(CLEANUP_RUNS, Counter, &["layer", "outcome"], Fleet, "Cleanup runs by layer and outcome"),
    metric(
        CLEANUP_ITEMS,
        Counter,
        &["what"],
        Fleet,
        "Items that cleanup scanned, found, ended, failed to end or deleted",
    ),
    metric(CPU, Counter, &["agent_type"], Fleet, "CPU time of ended sandboxes, where it was measured"),
    metric(
        "pinfold_create_seconds",
        Histogram,
        &[],
        Fleet,
        "From the create request until the sandbox is ready",
    ),
    metric(
        "pinfold_exec_start_seconds",
        Histogram,
        &[],
        Fleet,
        "From the execute request until the process runs",
    ),
    metric(
        "pinfold_stop_seconds",
        Histogram,
        &[],
        Fleet,
        "From the decision to end a sandbox until it is proven gone",
    ),
    metric(
        "pinfold_cancel_seconds",
        Histogram,
        &[],
        Fleet,
        "From the cancel request until the processes are proven gone",
    ),
    metric("pinfold_probe_seconds", Histogram, &[], Fleet, "Full probes of instances"),
    metric("pinfold_cleanup_seconds", Histogram, &["layer"], Fleet, "Cleanup runs by layer"),
    metric("pinfold_execution_seconds", Histogram, &["agent_type"], Fleet, "Executions from start to end"),
    metric(
        "pinfold_sandbox_lifetime_seconds",
        Histogram,
        &[],
        Fleet,
        "Sandboxes from created to proven gone",
    ),
    metric(SANDBOXES, Gauge, &["status"], Fleet, "Sandboxes that are not proven gone, by status"),
    metric(ACTIVE, Gauge, &[], Fleet, "Sandboxes that are ready, running, unhealthy or unknown"),
    metric(STUCK, Gauge, &[], Fleet, "Sandboxes past a deadline of their own, or in quarantine"),
    metric(ORPHANED, Gauge, &[], Fleet, "Sandboxes found without a lease and not proven gone yet"),
    metric(POOLED, Gauge, &[], Fleet, "Instances in the pool"),
    metric(LIMIT, Gauge, &[], Fleet, "Limit of concurrent sandboxes; absent without a limit"),
    metric(BY_AGE, Gauge, &["age"], Fleet, "Sandboxes that are not proven gone, by age"),
    metric(MEMORY_ALLOCATED, Gauge, &[], Fleet, "Memory allocated to sandboxes"),
    metric(MEMORY_LIMIT, Gauge, &[], Fleet, "Limit of allocated memory; absent without a limit"),
    metric(MEMORY_FREE, Gauge, &[], Process, "Free memory of this host; absent if not known"),
    metric(
        HOST_MEMORY,
        Gauge,
        &[],
        Process,
        "Memory of this host; absent if not known, or if a cgroup limit is lower",
    ),
    metric(DISK_ALLOCATED, Gauge, &[], Fleet, "Disk allocated to sandboxes"),
    metric(DISK_LIMIT, Gauge, &[], Fleet, "Limit of allocated disk; absent without a limit"),
    metric(DISK_FREE, Gauge, &[], Process, "Free disk of this host; absent if not known"),
    metric(
        HOST_DISK,
        Gauge,
        &[],
        Process,
        "Disk of this host, without the blocks reserved for root; absent if not known",
    ),
    metric(PROCESSES_ALLOCATED, Gauge, &[], Fleet, "Processes allocated to sandboxes"),
    metric(PROCESSES_LIMIT, Gauge, &[], Fleet, "Limit of allocated processes; absent without a limit"),
    metric(
        PROCESSES_FREE,
        Gauge,
        &[],
        Process,
        "Processes that this host can still start; absent if not known",
    ),
    metric(HOST_PROCESSES, Gauge, &[], Process, "Process limit of this host; absent if not known"),
    metric(STORE, Gauge, &[], Fleet, "Size of the store on disk"),
    metric(NODES, Gauge, &[], Fleet, "Nodes on this store"),
    metric(
        CLEANUP_LAST,
        Gauge,
        &["layer"],
        Fleet,
        "Last run of a cleanup layer; absent before its first run",
    ),
    metric(
        HTTP,
        Histogram,
        &["method", "route", "status"],
        Process,
        "HTTP requests, from the request head to the response head",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_name_has_the_prefix_is_unique_and_has_its_unit() {
        let names: BTreeSet<_> = CATALOGUE.iter().map(|metric| metric.name).collect();

        assert_eq!(names.len(), CATALOGUE.len());
        for metric in CATALOGUE {
            assert!(metric.name.starts_with("pinfold_"), "{}", metric.name);
            assert!(!metric.name.ends_with("_total"), "{}", metric.name);
            let is_timed = metric.kind == Histogram;
            assert_eq!(is_timed, is_timed && metric.name.ends_with("_seconds"), "{}", metric.name);
            assert!(!metric.help.is_empty() && !metric.help.ends_with('.'), "{}", metric.name);
        }
    }
}
