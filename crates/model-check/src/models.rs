//! The worlds that are walked through. Each is small in another way, so that all of them can be exhausted.

use pinfold_lifecycle::{Guards, Policy, Recovery};

use crate::{Bounds, Small, Wish};

/// Every deadline as short as it can be while it still matters: one tick is one millisecond.
fn hasty() -> Policy {
    Policy {
        start_ms: 3,
        launches: 2,
        accept_ms: None,
        probe_ms: 1,
        probe_every_ms: 9,
        look_again_ms: 1,
        evidence_ms: 9,
        doubt_ms: 2,
        unhealthy_age_ms: 100,
        grace_ms: 0,
        stop_attempt_ms: 1,
        stop_attempts: 2,
        stop_backoff_ms: vec![1],
        quarantine_look_ms: 1,
        queued_ms: 2,
        kill_ms: 1,
        idle_ms: None,
        max_life_ms: 100,
        side_by_side: 1,
        queue_length: 1,
        jobs: 1,
        one_shot: false,
        ends_with_owner: false,
        recovery: None,
        guards: Guards::default(),
    }
}

fn calm() -> Bounds {
    Bounds {
        sandboxes: 1,
        limit: 1,
        planes: 1,
        ticks: 3,
        jobs: 4,
        wishes: 0,
        wish_list: &[],
        faults: 0,
        crashes: 0,
        pauses: 0,
        decides_apart: false,
        processes_end: false,
        pooled: false,
    }
}

fn small(name: &'static str, policy: Policy, bounds: Bounds) -> Small {
    Small { name, policy, bounds, flaw: None }
}

/// Two planes: one is paused at any point, taken for dead or not, and wakes up late.
#[must_use]
pub fn handover() -> Small {
    let bounds = Bounds {
        planes: 2,
        ticks: 2,
        jobs: 3,
        wishes: 1,
        wish_list: &[Wish::Restart, Wish::Stop],
        faults: 1,
        pauses: 1,
        ..calm()
    };
    small("handover", hasty(), bounds)
}

/// Bodies come, are replaced and go, while the only plane crashes and is started again.
#[must_use]
pub fn replacement() -> Small {
    let bounds = Bounds {
        ticks: 2,
        jobs: 3,
        wishes: 2,
        wish_list: &[Wish::Restart, Wish::Stop, Wish::StopForShutdown],
        faults: 1,
        crashes: 1,
        ..calm()
    };
    small("replacement", hasty(), bounds)
}

/// Stops that fail, wait, are quarantined, looked at, attested to, asked for again, and forgotten.
#[must_use]
pub fn stop() -> Small {
    let policy = Policy { launches: 1, ..hasty() };
    let bounds = Bounds {
        ticks: 4,
        jobs: 3,
        wishes: 2,
        wish_list: &[Wish::Stop, Wish::StopForShutdown, Wish::StopForced, Wish::Forget, Wish::Attest],
        faults: 2,
        ..calm()
    };
    small("stop", policy, bounds)
}

/// Two executions, one place: queue, start, silence, cancel, and a plane that crashes.
#[must_use]
pub fn executions() -> Small {
    let policy = Policy { launches: 1, ..hasty() };
    let bounds = Bounds {
        ticks: 3,
        wishes: 2,
        wish_list: &[Wish::Execute(0), Wish::Execute(1), Wish::Cancel(0), Wish::Restart, Wish::Doubt],
        crashes: 1,
        processes_end: true,
        ..calm()
    };
    small("executions", policy, bounds)
}

/// An execution that is asked for while one plane is paused and another takes over.
#[must_use]
pub fn relief() -> Small {
    let policy = Policy { launches: 1, ..hasty() };
    let bounds = Bounds {
        planes: 2,
        ticks: 2,
        wishes: 2,
        wish_list: &[Wish::Execute(0), Wish::Cancel(0), Wish::Restart, Wish::Stop],
        pauses: 1,
        processes_end: true,
        ..calm()
    };
    small("relief", policy, bounds)
}

/// The first work must be accepted in time, and a provider makes that hard.
#[must_use]
pub fn acceptance() -> Small {
    let policy = Policy { launches: 1, accept_ms: Some(1), ..hasty() };
    let bounds = Bounds {
        ticks: 3,
        wishes: 2,
        wish_list: &[Wish::Execute(0), Wish::Cancel(0)],
        faults: 1,
        processes_end: true,
        ..calm()
    };
    small("acceptance", policy, bounds)
}

/// A quiet sandbox: its routine probes, its idleness, the end of its life, and nobody awake for a while.
#[must_use]
pub fn health() -> Small {
    let policy = Policy {
        launches: 1,
        probe_every_ms: 2,
        evidence_ms: 2,
        idle_ms: Some(3),
        max_life_ms: 6,
        unhealthy_age_ms: 3,
        ..hasty()
    };
    let bounds = Bounds {
        ticks: 6,
        jobs: 3,
        wishes: 1,
        wish_list: &[Wish::KeepAlive, Wish::Doubt, Wish::Stop],
        faults: 1,
        pauses: 1,
        ..calm()
    };
    small("health", policy, bounds)
}

/// Two sandboxes want the only place, and what was decided may be old when it is committed.
#[must_use]
pub fn two_sandboxes() -> Small {
    let policy = Policy { launches: 1, ..hasty() };
    let bounds = Bounds {
        sandboxes: 2,
        planes: 2,
        ticks: 1,
        wishes: 1,
        wish_list: &[Wish::Stop, Wish::Forget],
        decides_apart: true,
        ..calm()
    };
    small("two sandboxes", policy, bounds)
}

/// Rows that cannot be read any more, with work under way.
#[must_use]
pub fn unreadable() -> Small {
    let bounds =
        Bounds { planes: 2, ticks: 2, jobs: 3, wishes: 1, wish_list: &[Wish::Spoil], pauses: 1, ..calm() };
    small("unreadable", hasty(), bounds)
}

/// A body waits in the pool, grows stale or sick, and is given out for a longer or a shorter life, while planes
/// pause and take over.
#[must_use]
pub fn pool() -> Small {
    let policy = Policy { launches: 1, probe_every_ms: 2, evidence_ms: 1, ..hasty() };
    let bounds = Bounds {
        planes: 2,
        ticks: 2,
        jobs: 3,
        wishes: 2,
        wish_list: &[Wish::Claim, Wish::ClaimShort, Wish::Execute(0)],
        faults: 1,
        pauses: 1,
        pooled: true,
        ..calm()
    };
    small("pool", policy, bounds)
}

/// Two want the same body, and the pool wants to be rid of it.
#[must_use]
pub fn claimers() -> Small {
    let policy = Policy { launches: 1, ..hasty() };
    let bounds = Bounds {
        planes: 2,
        ticks: 1,
        jobs: 3,
        wishes: 3,
        wish_list: &[Wish::Claim, Wish::GiveUp, Wish::Execute(0)],
        faults: 1,
        decides_apart: true,
        pooled: true,
        ..calm()
    };
    small("claimers", policy, bounds)
}

/// A run whose bodies fail it in every way: it is tried twice, stopped and cancelled at any point of that, while the
/// only plane crashes and is started again.
#[must_use]
pub fn recovery() -> Small {
    let recovery = Some(Recovery { tries: 2, backoff_ms: 1 });
    let policy = Policy { one_shot: true, recovery, start_ms: 2, queued_ms: 1, ..hasty() };
    let bounds = Bounds {
        ticks: 3,
        jobs: 3,
        wishes: 2,
        wish_list: &[Wish::Execute(1), Wish::Cancel(1), Wish::Stop],
        faults: 1,
        crashes: 1,
        processes_end: true,
        ..calm()
    };
    small("recovery", policy, bounds)
}

#[must_use]
pub fn all() -> Vec<Small> {
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
    ]
}
