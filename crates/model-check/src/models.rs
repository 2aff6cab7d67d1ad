//! The models. Each is bounded in a different dimension, so that all of them can be explored exhaustively.

use pinfold_lifecycle::{FileTransfers, Guards, Policy, Recovery};

use crate::{Bounds, ExternalRequest, SmallModel};

/// Every deadline as short as it can be while it still matters. One tick is one millisecond.
fn short_deadlines() -> Policy {
    Policy {
        start_ms: 3,
        launches: 2,
        accept_ms: None,
        probe_ms: 1,
        probe_every_ms: 9,
        observe_retry_ms: 1,
        evidence_ms: 9,
        doubt_ms: 2,
        unhealthy_age_ms: 100,
        failed_probes: 1,
        grace_ms: 0,
        stop_attempt_ms: 1,
        stop_attempts: 2,
        stop_backoff_ms: vec![1],
        quarantine_observe_ms: 1,
        queued_ms: 2,
        kill_ms: 1,
        collect_ms: 1,
        collect_after_kill_ms: 1,
        idle_ms: None,
        max_life_ms: 100,
        max_concurrent: 1,
        queue_length: 1,
        jobs: 1,
        one_shot: false,
        ends_with_owner: false,
        recovery: None,
        guards: Guards::default(),
    }
}

fn no_faults() -> Bounds {
    Bounds {
        sandboxes: 1,
        limit: 1,
        planes: 1,
        ticks: 3,
        effect_runs: 4,
        requests: 0,
        request_kinds: &[],
        faults: 0,
        crashes: 0,
        pauses: 0,
        decides_apart: false,
        processes_end: false,
        pooled: false,
        transfers: FileTransfers::default(),
    }
}

fn small(name: &'static str, policy: Policy, bounds: Bounds) -> SmallModel {
    SmallModel { name, policy, bounds, flaw: None }
}

/// Two nodes: one is paused at any point, may be taken for dead, and wakes up late.
#[must_use]
pub fn handover() -> SmallModel {
    let bounds = Bounds {
        planes: 2,
        ticks: 2,
        effect_runs: 3,
        requests: 1,
        request_kinds: &[ExternalRequest::Restart, ExternalRequest::Stop],
        faults: 1,
        pauses: 1,
        ..no_faults()
    };
    small("handover", short_deadlines(), bounds)
}

/// Instances are launched, replaced and stopped while the only node crashes and restarts.
#[must_use]
pub fn replacement() -> SmallModel {
    let bounds = Bounds {
        ticks: 2,
        effect_runs: 3,
        requests: 2,
        request_kinds: &[ExternalRequest::Restart, ExternalRequest::Stop, ExternalRequest::StopForShutdown],
        faults: 1,
        crashes: 1,
        ..no_faults()
    };
    small("replacement", short_deadlines(), bounds)
}

/// Stops that fail, back off, are quarantined, observed, attested, repeated, and followed by deletion of the row.
#[must_use]
pub fn stop() -> SmallModel {
    let policy = Policy { launches: 1, ..short_deadlines() };
    let bounds = Bounds {
        ticks: 4,
        effect_runs: 3,
        requests: 2,
        request_kinds: &[
            ExternalRequest::Stop,
            ExternalRequest::StopForShutdown,
            ExternalRequest::StopForced,
            ExternalRequest::Forget,
            ExternalRequest::Attest,
        ],
        faults: 2,
        ..no_faults()
    };
    small("stop", policy, bounds)
}

/// Two executions and one slot: queue, start, inactivity, cancel, and a node that crashes.
#[must_use]
pub fn executions() -> SmallModel {
    let policy = Policy { launches: 1, ..short_deadlines() };
    let bounds = Bounds {
        ticks: 3,
        requests: 2,
        request_kinds: &[
            ExternalRequest::Execute(0),
            ExternalRequest::Execute(1),
            ExternalRequest::Cancel(0),
            ExternalRequest::Restart,
            ExternalRequest::Doubt,
        ],
        crashes: 1,
        processes_end: true,
        ..no_faults()
    };
    small("executions", policy, bounds)
}

/// An execution is requested while one node is paused and another takes over.
#[must_use]
pub fn relief() -> SmallModel {
    let policy = Policy { launches: 1, ..short_deadlines() };
    let bounds = Bounds {
        planes: 2,
        ticks: 2,
        requests: 2,
        request_kinds: &[
            ExternalRequest::Execute(0),
            ExternalRequest::Cancel(0),
            ExternalRequest::Restart,
            ExternalRequest::Stop,
        ],
        pauses: 1,
        processes_end: true,
        ..no_faults()
    };
    small("relief", policy, bounds)
}

/// The first execution must be accepted in time, while the provider fails.
#[must_use]
pub fn acceptance() -> SmallModel {
    let policy = Policy { launches: 1, accept_ms: Some(1), ..short_deadlines() };
    let bounds = Bounds {
        ticks: 3,
        requests: 2,
        request_kinds: &[ExternalRequest::Execute(0), ExternalRequest::Cancel(0)],
        faults: 1,
        processes_end: true,
        ..no_faults()
    };
    small("acceptance", policy, bounds)
}

/// A quiet sandbox: routine probes, idleness, maximum life, and a period without a running node.
#[must_use]
pub fn health() -> SmallModel {
    let policy = Policy {
        launches: 1,
        probe_every_ms: 2,
        evidence_ms: 2,
        idle_ms: Some(3),
        max_life_ms: 6,
        unhealthy_age_ms: 3,
        ..short_deadlines()
    };
    let bounds = Bounds {
        ticks: 6,
        effect_runs: 3,
        requests: 1,
        request_kinds: &[ExternalRequest::KeepAlive, ExternalRequest::Doubt, ExternalRequest::Stop],
        faults: 1,
        pauses: 1,
        ..no_faults()
    };
    small("health", policy, bounds)
}

/// Two sandboxes compete for one slot, and decisions may be outdated when they are committed.
#[must_use]
pub fn two_sandboxes() -> SmallModel {
    let policy = Policy { launches: 1, ..short_deadlines() };
    let bounds = Bounds {
        sandboxes: 2,
        planes: 2,
        ticks: 1,
        requests: 1,
        request_kinds: &[ExternalRequest::Stop, ExternalRequest::Forget],
        decides_apart: true,
        ..no_faults()
    };
    small("two sandboxes", policy, bounds)
}

/// Rows become unreadable while effects are running.
#[must_use]
pub fn unreadable() -> SmallModel {
    let bounds = Bounds {
        planes: 2,
        ticks: 2,
        effect_runs: 3,
        requests: 1,
        request_kinds: &[ExternalRequest::CorruptRow],
        pauses: 1,
        ..no_faults()
    };
    small("unreadable", short_deadlines(), bounds)
}

/// A pooled instance becomes stale or unhealthy, or is claimed for a longer or shorter life, while nodes pause and
/// take over.
#[must_use]
pub fn pool() -> SmallModel {
    let policy = Policy { launches: 1, probe_every_ms: 2, evidence_ms: 1, ..short_deadlines() };
    let bounds = Bounds {
        planes: 2,
        ticks: 2,
        effect_runs: 3,
        requests: 2,
        request_kinds: &[ExternalRequest::Claim, ExternalRequest::ClaimShort, ExternalRequest::Execute(0)],
        faults: 1,
        pauses: 1,
        pooled: true,
        ..no_faults()
    };
    small("pool", policy, bounds)
}

/// Two users claim the same instance while the pool discards it.
#[must_use]
pub fn claimers() -> SmallModel {
    let policy = Policy { launches: 1, ..short_deadlines() };
    let bounds = Bounds {
        planes: 2,
        ticks: 1,
        effect_runs: 3,
        requests: 3,
        request_kinds: &[ExternalRequest::Claim, ExternalRequest::DiscardPooled, ExternalRequest::Execute(0)],
        faults: 1,
        decides_apart: true,
        pooled: true,
        ..no_faults()
    };
    small("claimers", policy, bounds)
}

/// A run with retries whose instances fail in every way. It is stopped and cancelled at any point, while the only node
/// crashes and restarts.
#[must_use]
pub fn recovery() -> SmallModel {
    let recovery = Some(Recovery { attempts: 2, backoff_ms: 1 });
    let policy = Policy { one_shot: true, recovery, start_ms: 2, queued_ms: 1, ..short_deadlines() };
    let bounds = Bounds {
        ticks: 3,
        effect_runs: 3,
        requests: 2,
        request_kinds: &[ExternalRequest::Execute(1), ExternalRequest::Cancel(1), ExternalRequest::Stop],
        faults: 1,
        crashes: 1,
        processes_end: true,
        ..no_faults()
    };
    small("recovery", policy, bounds)
}

/// An execution with input files and artifacts is cancelled and stopped at any point, and its instance dies, while the
/// only node crashes and restarts.
#[must_use]
pub fn artifacts() -> SmallModel {
    let policy = Policy { launches: 1, one_shot: true, ..short_deadlines() };
    let bounds = Bounds {
        ticks: 2,
        effect_runs: 3,
        requests: 2,
        request_kinds: &[
            ExternalRequest::Execute(1),
            ExternalRequest::Cancel(1),
            ExternalRequest::Stop,
            ExternalRequest::Restart,
            ExternalRequest::Doubt,
        ],
        faults: 1,
        crashes: 1,
        processes_end: true,
        transfers: FileTransfers { input: true, artifacts: true },
        ..no_faults()
    };
    small("artifacts", policy, bounds)
}

#[must_use]
pub fn all() -> Vec<SmallModel> {
    vec![
        handover(),
        replacement(),
        stop(),
        executions(),
        relief(),
        acceptance(),
        health(),
        two_sandboxes(),
        unreadable(),
        pool(),
        claimers(),
        recovery(),
        artifacts(),
    ]
}
