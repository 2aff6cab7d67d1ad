//! The five demo agents: what each does, and how it should end.

use pinfold_lifecycle::profile::{BadLimit, DEFAULT, LimitOverrides, ResolvedLimits};
use pinfold_lifecycle::{Cause, ExecutionLimits, Limits, Policy};

pub(super) struct Agent {
    pub(super) name: &'static str,
    pub(super) does: &'static str,
    pub(super) script: &'static str,
    limits_requested: LimitOverrides,
    pub(super) expected: Cause,
    /// The demo stops it after this time.
    pub(super) stop_after_ms: Option<u64>,
}

/// Maximum life of each sandbox.
const MAX_LIFE_MS: u64 = 120_000;
/// Execution timeout, unless an agent has its own.
const TIMEOUT_MS: u64 = 60_000;

const WORKS: &str = "for step in 1 2 3 4; do echo \"step $step of 4\"; sleep 1; done; echo finished > result";
const LOOPS: &str = "echo 'this will not take long'; while :; do :; done";
const HANGS: &str = "echo 'waiting for an answer that never comes'; sleep 1000";
/// Stops growing by itself after 96 MiB, in case the host cannot limit memory.
const LEAKS: &str = "piece=$(head -c 2097152 /dev/zero | tr '\\0' x); all=; \
                     for step in $(seq 48); do all=$all$piece; echo \"step $step\"; sleep 0.1; done; sleep 1000";
const STOPPED: &str = "while :; do echo 'still at it'; sleep 1; done";

impl Agent {
    fn of(name: &'static str, does: &'static str, script: &'static str, expected: Cause) -> Self {
        let execution = ExecutionLimits { timeout_ms: Some(TIMEOUT_MS), inactivity_ms: None };
        let limits_requested =
            LimitOverrides { execution, max_life_ms: Some(MAX_LIFE_MS), ..LimitOverrides::default() };
        Self { name, does, script, limits_requested, expected, stop_after_ms: None }
    }

    pub(super) fn resolved_limits(&self) -> Result<ResolvedLimits, BadLimit> {
        DEFAULT.with(&self.limits_requested, &Policy::default())
    }
}

/// Where memory cannot be limited, the leaking agent ends by its timeout instead.
pub(super) fn all_agents(memory_is_limited: bool) -> Vec<Agent> {
    let mut looper = Agent::of("looper", "loops: may use 2 s of CPU", LOOPS, Cause::CpuLimit);
    looper.limits_requested.limits.cpu_time_ms = Some(2_000);
    let mut sleeper = Agent::of("sleeper", "hangs: may be silent for 4 s", HANGS, Cause::Inactivity);
    sleeper.limits_requested.execution.inactivity_ms = Some(4_000);
    let mut leaker = if memory_is_limited {
        Agent::of("leaker", "leaks: may have 64 MiB", LEAKS, Cause::MemoryLimit)
    } else {
        let mut leaker = Agent::of("leaker", "leaks: may run for 8 s", LEAKS, Cause::TimeLimit);
        leaker.limits_requested.execution.timeout_ms = Some(8_000);
        leaker
    };
    leaker.limits_requested.limits = Limits { memory_mb: Some(64), ..Limits::default() };
    let mut talker = Agent::of("talker", "never ends: stopped after 5 s", STOPPED, Cause::StoppedByUser);
    talker.stop_after_ms = Some(5_000);
    vec![Agent::of("worker", "works, and finishes", WORKS, Cause::Completed), looper, sleeper, leaker, talker]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_agents_limits_are_allowed() {
        for memory_is_limited in [true, false] {
            for agent in all_agents(memory_is_limited) {
                assert!(agent.resolved_limits().is_ok(), "{}", agent.name);
            }
        }
    }
}
