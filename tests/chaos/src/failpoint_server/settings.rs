//! Settings of servers under test: short intervals, so that a round does not wait. The program reads the same
//! values from its file.

use pinfold_engine::{Config, PoolPlan};
use pinfold_lifecycle::profile::DEFAULT;
use pinfold_lifecycle::{HostReserve, Policy, Spec};
use pinfold_service::ServiceConfig;

const HEARTBEAT_MS: u64 = 500;
const RECONCILE_MS: u64 = 3_000;
const GRACE_MS: u64 = 300;
const START_MS: u64 = 30_000;
const STOP_ATTEMPT_MS: u64 = 10_000;
const PROBE_MS: u64 = 3_000;
const PROBE_EVERY_MS: u64 = 2_000;
const EVIDENCE_MS: u64 = 5_000;
const QUEUED_MS: u64 = 20_000;
/// A round's disk is small.
const KEEP_DISK_MB: u64 = 16;

pub(crate) const FILE: &str = "pinfold.toml";

/// The settings file for the `pinfold` program.
pub(crate) fn file() -> String {
    format!(
        "[sandboxes]\ngrace = \"{GRACE_MS}ms\"\nstart = \"{START_MS}ms\"\nstop_attempt = \"{STOP_ATTEMPT_MS}ms\"\n\
         probe = \"{PROBE_MS}ms\"\nprobe_every = \"{PROBE_EVERY_MS}ms\"\nevidence = \"{EVIDENCE_MS}ms\"\n\
         queued = \"{QUEUED_MS}ms\"\n\
         [engine]\nheartbeat = \"{HEARTBEAT_MS}ms\"\nreconcile_every = \"{RECONCILE_MS}ms\"\n\
         [admission]\nkeep_disk_mb = {KEEP_DISK_MB}\n\
         [warm]\nsizes = {{ default = 1 }}\n"
    )
}

/// Without a pool nothing runs but what clients request.
pub(crate) fn engine(is_cold: bool) -> Config {
    let shape = Spec { limits: DEFAULT.limits, ..Spec::default() }.shape();
    let plan = PoolPlan { shape, policy: rules().policy, size: 1 };
    let pool = if is_cold { Vec::new() } else { vec![plan] };
    let usual = Config::default();
    let keep = HostReserve { disk_mb: KEEP_DISK_MB, ..usual.keep };
    Config { heartbeat_ms: HEARTBEAT_MS, reconcile_every_ms: RECONCILE_MS, pool, keep, ..usual }
}

pub(crate) fn rules() -> ServiceConfig {
    let policy = Policy {
        grace_ms: GRACE_MS,
        start_ms: START_MS,
        stop_attempt_ms: STOP_ATTEMPT_MS,
        probe_ms: PROBE_MS,
        probe_every_ms: PROBE_EVERY_MS,
        evidence_ms: EVIDENCE_MS,
        queued_ms: QUEUED_MS,
        ..Policy::default()
    };
    ServiceConfig { policy, ..ServiceConfig::default() }
}
