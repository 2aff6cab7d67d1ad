//! Every metric there is: its name, what it means and whose it is. The text for Prometheus, the documentation and the
//! tests of names all go by this list. A name that was ever released stays what it is.

/// One line of the list. The name has its unit, and no `_total`: that is added where counters are told.
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

/// Where several servers share a store, whose figures these are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Of all sandboxes on the store: every server tells the same, so take one of them and not their sum.
    Fleet,
    /// Of the process that is asked.
    Process,
}

pub(crate) const CREATED: &str = "pinfold_sandboxes_created";
pub(crate) const DESTROYED: &str = "pinfold_sandboxes_destroyed";
pub(crate) const ATTESTED: &str = "pinfold_sandboxes_attested";
pub(crate) const ENDED: &str = "pinfold_sandboxes_ended";
pub(crate) const STARTS_FAILED: &str = "pinfold_starts_failed";
pub(crate) const TRIES_FAILED: &str = "pinfold_tries_failed";
pub(crate) const EXECUTIONS: &str = "pinfold_executions";
pub(crate) const FAILURES: &str = "pinfold_execution_failures";
pub(crate) const TIMEOUTS: &str = "pinfold_execution_timeouts";
pub(crate) const INACTIVITY: &str = "pinfold_execution_inactivity";
pub(crate) const STOP_ATTEMPTS: &str = "pinfold_stop_attempts";
pub(crate) const TIMEOUT_CLEANUPS: &str = "pinfold_timeout_cleanups";
pub(crate) const QUARANTINES: &str = "pinfold_quarantines";
pub(crate) const PROBES: &str = "pinfold_probes";
pub(crate) const REFUSED: &str = "pinfold_admissions_refused";
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
pub(crate) const MEMORY_PROMISED: &str = "pinfold_memory_promised_bytes";
pub(crate) const MEMORY_LIMIT: &str = "pinfold_memory_limit_bytes";
pub(crate) const MEMORY_LEFT: &str = "pinfold_memory_left_bytes";
pub(crate) const HOST_MEMORY: &str = "pinfold_host_memory_bytes";
pub(crate) const DISK_PROMISED: &str = "pinfold_disk_promised_bytes";
pub(crate) const DISK_LIMIT: &str = "pinfold_disk_limit_bytes";
pub(crate) const DISK_LEFT: &str = "pinfold_disk_left_bytes";
pub(crate) const HOST_DISK: &str = "pinfold_host_disk_bytes";
pub(crate) const PROCESSES_PROMISED: &str = "pinfold_processes_promised";
pub(crate) const PROCESSES_LIMIT: &str = "pinfold_processes_limit";
pub(crate) const PROCESSES_LEFT: &str = "pinfold_processes_left";
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

/// In the order in which they are told.
pub const CATALOGUE: &[Metric] = &[
    metric(CREATED, Counter, &[], Fleet, "Sandboxes created, stray bodies included"),
    metric(DESTROYED, Counter, &[], Fleet, "Sandboxes proven gone, or attested to be"),
    metric(ATTESTED, Counter, &[], Fleet, "Sandboxes gone on an operator's word alone"),
    metric(ENDED, Counter, &["cause"], Fleet, "Sandboxes that ended, by their cause of death"),
    metric(STARTS_FAILED, Counter, &[], Fleet, "Sandboxes that ended before they were ready and ran nothing"),
    metric(TRIES_FAILED, Counter, &["cause"], Fleet, "Bodies that failed a run which is tried again"),
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
        "Executions whose time ran out: their own, their sandbox's, or that of their silence",
    ),
    metric(
        INACTIVITY,
        Counter,
        &["agent_type"],
        Fleet,
        "Of those whose time ran out, the executions that fell silent",
    ),
    metric(
        STOP_ATTEMPTS,
        Counter,
        &["outcome"],
        Fleet,
        "Attempts to stop a body: gone, or why that is not proven",
    ),
    metric(
        TIMEOUT_CLEANUPS,
        Counter,
        &["outcome"],
        Fleet,
        "Executions and sandboxes whose time ran out: all of it is gone, or it is in quarantine",
    ),
    metric(QUARANTINES, Counter, &[], Fleet, "Bodies that could not be proven gone in all attempts"),
    metric(PROBES, Counter, &["kind", "verdict"], Fleet, "Probes and pings of bodies by what they found"),
    metric(
        REFUSED,
        Counter,
        &["reason"],
        Fleet,
        "Creates refused because there is no room, by what is short",
    ),
    metric(ORPHANS, Counter, &[], Fleet, "Bodies found that no lease spoke of"),
    metric(CLEANUP_RUNS, Counter, &["layer", "outcome"], Fleet, "Runs of cleanup by layer and outcome"),
    metric(
        CLEANUP_ITEMS,
        Counter,
        &["what"],
        Fleet,
        "What cleanup scanned, found, ended for which reason, failed to end, and forgot",
    ),
    metric(
        CPU,
        Counter,
        &["agent_type"],
        Fleet,
        "Processor time of sandboxes that ended, where it was counted",
    ),
    metric("pinfold_create_seconds", Histogram, &[], Fleet, "From the wish for a sandbox until it is ready"),
    metric(
        "pinfold_exec_start_seconds",
        Histogram,
        &[],
        Fleet,
        "From the wish for an execution until it runs",
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
        "From the wish that an execution ends until its processes are proven gone",
    ),
    metric("pinfold_probe_seconds", Histogram, &[], Fleet, "Whole probes of bodies"),
    metric("pinfold_cleanup_seconds", Histogram, &["layer"], Fleet, "Runs of cleanup by layer"),
    metric(
        "pinfold_execution_seconds",
        Histogram,
        &["agent_type"],
        Fleet,
        "Executions from their start to their end",
    ),
    metric("pinfold_sandbox_lifetime_seconds", Histogram, &[], Fleet, "Sandboxes from created to gone"),
    metric(SANDBOXES, Gauge, &["status"], Fleet, "Sandboxes that are not proven gone, by status"),
    metric(ACTIVE, Gauge, &[], Fleet, "Sandboxes that are ready, running, unhealthy or unknown"),
    metric(STUCK, Gauge, &[], Fleet, "Sandboxes past a deadline of their own, or in quarantine"),
    metric(ORPHANED, Gauge, &[], Fleet, "Sandboxes found without a lease and not proven gone yet"),
    metric(POOLED, Gauge, &[], Fleet, "Bodies that wait in the pool"),
    metric(LIMIT, Gauge, &[], Fleet, "Sandboxes there may be at one time; absent without a limit"),
    metric(BY_AGE, Gauge, &["age"], Fleet, "Sandboxes that are not proven gone, by age"),
    metric(MEMORY_PROMISED, Gauge, &[], Fleet, "Memory that sandboxes may use together"),
    metric(MEMORY_LIMIT, Gauge, &[], Fleet, "Memory that may be promised; absent without a limit"),
    metric(MEMORY_LEFT, Gauge, &[], Process, "Memory left on this host; absent where it is not known"),
    metric(
        HOST_MEMORY,
        Gauge,
        &[],
        Process,
        "Memory of this host; absent where it is not known, or something less bounds what is left",
    ),
    metric(DISK_PROMISED, Gauge, &[], Fleet, "Disk that sandboxes may use together"),
    metric(DISK_LIMIT, Gauge, &[], Fleet, "Disk that may be promised; absent without a limit"),
    metric(DISK_LEFT, Gauge, &[], Process, "Disk left on this host; absent where it is not known"),
    metric(
        HOST_DISK,
        Gauge,
        &[],
        Process,
        "Disk of this host, without what is kept for root; absent where it is not known",
    ),
    metric(PROCESSES_PROMISED, Gauge, &[], Fleet, "Processes that sandboxes may have together"),
    metric(PROCESSES_LIMIT, Gauge, &[], Fleet, "Processes that may be promised; absent without a limit"),
    metric(PROCESSES_LEFT, Gauge, &[], Process, "Processes left on this host; absent where it is not known"),
    metric(
        HOST_PROCESSES,
        Gauge,
        &[],
        Process,
        "Processes that this host can have; absent where it is not known",
    ),
    metric(STORE, Gauge, &[], Fleet, "Size of the store on disk"),
    metric(NODES, Gauge, &[], Fleet, "Processes that run sandboxes on this store"),
    metric(
        CLEANUP_LAST,
        Gauge,
        &["layer"],
        Fleet,
        "When a layer of cleanup last ran; absent before its first run",
    ),
    metric(
        HTTP,
        Histogram,
        &["method", "route", "status"],
        Process,
        "Requests from their head until their answer begins",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_name_is_ours_is_there_once_and_says_its_unit() {
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
