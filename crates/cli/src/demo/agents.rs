//! The five agents: what each does, and how it should end.

use pinfold_lifecycle::profile::{Allotment, BadLimit, DEFAULT, Wishes};
use pinfold_lifecycle::{Cause, ExecutionLimits, Limits, Policy};

pub(super) struct Agent {
    pub(super) name: &'static str,
    pub(super) does: &'static str,
    pub(super) script: &'static str,
    wishes: Wishes,
    pub(super) expected: Cause,
    /// After so long somebody stops it.
    pub(super) stop_after_ms: Option<u64>,
}

/// Nobody outlives this, whatever happens.
const LIFE_MS: u64 = 120_000;
/// What ends whoever does not end otherwise.
const TIMEOUT_MS: u64 = 60_000;

const WORKS: &str = "for step in 1 2 3 4; do echo \"step $step of 4\"; sleep 1; done; echo finished > result";
const LOOPS: &str = "echo 'this will not take long'; while :; do :; done";
const HANGS: &str = "echo 'asking somebody who never answers'; sleep 1000";
/// One that nothing limits stops growing by itself, long before its host would mind.
const LEAKS: &str = "piece=$(head -c 2097152 /dev/zero | tr '\\0' x); all=; \
                     for step in $(seq 48); do all=$all$piece; echo \"step $step\"; sleep 0.1; done; sleep 1000";
const IS_STOPPED: &str = "while :; do echo 'still at it'; sleep 1; done";

impl Agent {
    fn of(name: &'static str, does: &'static str, script: &'static str, expected: Cause) -> Self {
        let execution = ExecutionLimits { timeout_ms: Some(TIMEOUT_MS), inactivity_ms: None };
        let wishes = Wishes { execution, max_life_ms: Some(LIFE_MS), ..Wishes::default() };
        Self { name, does, script, wishes, expected, stop_after_ms: None }
    }

    pub(super) fn given(&self) -> Result<Allotment, BadLimit> {
        DEFAULT.with(&self.wishes, &Policy::default())
    }
}

/// Where nothing can limit memory, the one that leaks is ended by its time instead.
pub(super) fn five(memory_is_limited: bool) -> Vec<Agent> {
    let mut looper = Agent::of("looper", "loops: may use 2 s of CPU", LOOPS, Cause::CpuLimit);
    looper.wishes.limits.cpu_time_ms = Some(2_000);
    let mut sleeper = Agent::of("sleeper", "hangs: may be silent for 4 s", HANGS, Cause::Inactivity);
    sleeper.wishes.execution.inactivity_ms = Some(4_000);
    let mut leaker = if memory_is_limited {
        Agent::of("leaker", "leaks: may have 64 MiB", LEAKS, Cause::MemoryLimit)
    } else {
        let mut leaker = Agent::of("leaker", "leaks: may run for 8 s", LEAKS, Cause::TimeLimit);
        leaker.wishes.execution.timeout_ms = Some(8_000);
        leaker
    };
    leaker.wishes.limits = Limits { memory_mb: Some(64), ..Limits::default() };
    let mut talker = Agent::of("talker", "goes on: stopped after 5 s", IS_STOPPED, Cause::StoppedByUser);
    talker.stop_after_ms = Some(5_000);
    vec![Agent::of("worker", "works, and finishes", WORKS, Cause::Completed), looper, sleeper, leaker, talker]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_agent_may_have_what_it_is_given() {
        for memory_is_limited in [true, false] {
            for agent in five(memory_is_limited) {
                assert!(agent.given().is_ok(), "{}", agent.name);
            }
        }
    }
}
