//! How long anything may take and how often it is tried. Fixed when the sandbox is created, so that every
//! node decides the same.

use serde::{Deserialize, Serialize};

use crate::{Guards, Recovery, SandboxId, Timestamp};

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// From the wish for a body to a body that passed its probes.
    pub start_ms: u64,
    /// How many bodies are tried before that.
    pub launches: u32,
    /// From a live body to the first work it accepts. None: it may wait for work until it is idle.
    pub accept_ms: Option<u64>,
    /// One probe or look.
    pub probe_ms: u64,
    /// Between two routine probes.
    pub probe_every_ms: u64,
    /// Between two tries of a look that did not answer.
    pub look_again_ms: u64,
    /// How long a passed probe proves that the sandbox is ready.
    pub evidence_ms: u64,
    /// How long looks may fail before the sandbox is ended.
    pub doubt_ms: u64,
    /// An unhealthy sandbox is ended once it is this old, and flagged before.
    pub unhealthy_age_ms: u64,
    /// From SIGTERM to SIGKILL.
    pub grace_ms: u64,
    /// One attempt to stop.
    pub stop_attempt_ms: u64,
    /// Attempts before quarantine.
    pub stop_attempts: u32,
    /// The waits between attempts; the last one repeats.
    pub stop_backoff_ms: Vec<u64>,
    /// Between two looks at what is quarantined.
    pub quarantine_look_ms: u64,
    /// From the wish for an execution to its first instruction.
    pub queued_ms: u64,
    /// From the decision to end an execution to the proof that it is gone.
    pub kill_ms: u64,
    /// No execution, no CPU used, no egress. None: never idle.
    pub idle_ms: Option<u64>,
    pub max_life_ms: u64,
    /// Executions side by side; further ones are queued.
    pub side_by_side: u32,
    pub queue_length: u32,
    pub jobs: u32,
    /// The sandbox ends with its last execution.
    pub one_shot: bool,
    /// The sandbox belongs to the node that made it, and ends with it.
    pub ends_with_owner: bool,
    /// What its bodies fail is run again in the next one, effects it had or not. None: it ends with its body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
    #[serde(skip)]
    pub guards: Guards,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            start_ms: 60_000,
            launches: 3,
            accept_ms: None,
            probe_ms: 5_000,
            probe_every_ms: 15_000,
            look_again_ms: 2_000,
            evidence_ms: 30_000,
            doubt_ms: 60_000,
            unhealthy_age_ms: 600_000,
            grace_ms: 5_000,
            stop_attempt_ms: 45_000,
            stop_attempts: 5,
            stop_backoff_ms: vec![5_000, 10_000, 30_000, 120_000, 300_000],
            quarantine_look_ms: 600_000,
            queued_ms: 30_000,
            kill_ms: 10_000,
            idle_ms: Some(600_000),
            max_life_ms: 86_400_000,
            side_by_side: 16,
            queue_length: 64,
            jobs: 64,
            one_shot: false,
            ends_with_owner: false,
            recovery: None,
            guards: Guards::default(),
        }
    }
}

/// All routine probes of one round fall on so many moments.
const MOMENTS: u64 = 32;
/// Bodies that were made at once are first probed at so many of them, and keep theirs.
const FIRST_MOMENTS: u128 = 8;

impl Policy {
    /// When a body that was proven sound then is probed again. That is a little early, at a moment that many bodies have
    /// in common: so a thousand of them share wake-ups and commits.
    #[must_use]
    pub fn next_check(&self, proven_at: Timestamp) -> Timestamp {
        self.moment_before(proven_at.after_ms(self.probe_every_ms))
    }

    /// The same of a body that is new. It may be earlier by a quarter: otherwise a herd would be probed at one moment, for
    /// as long as it lives.
    #[must_use]
    pub fn first_check(&self, id: SandboxId, proven_at: Timestamp) -> Timestamp {
        let moments = u64::try_from(id.0 % FIRST_MOMENTS).unwrap_or(0);
        let early_ms = self.probe_every_ms / MOMENTS * moments;
        self.moment_before(proven_at.after_ms(self.probe_every_ms - early_ms))
    }

    fn moment_before(&self, latest: Timestamp) -> Timestamp {
        let between = i64::try_from(self.probe_every_ms / MOMENTS).unwrap_or(i64::MAX).max(1);
        Timestamp(latest.0.saturating_sub(latest.0.rem_euclid(between)))
    }

    /// The wait after so many failed attempts to stop.
    #[must_use]
    pub fn backoff_ms(&self, attempts: u32) -> u64 {
        let step = usize::try_from(attempts.saturating_sub(1)).unwrap_or(usize::MAX);
        let last = self.stop_backoff_ms.last();
        self.stop_backoff_ms.get(step).or(last).copied().unwrap_or(self.stop_attempt_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_that_were_proven_sound_at_different_times_are_probed_together_and_none_too_late() {
        let policy = Policy { probe_every_ms: 15_000, ..Policy::default() };
        let proven: Vec<_> = (1_000_000..1_015_000).map(Timestamp).collect();

        let mut moments: Vec<_> = proven.iter().map(|at| policy.next_check(*at)).collect();
        for (at, next) in proven.iter().zip(&moments) {
            let waits = next.ms_since(*at);
            assert!(waits <= 15_000 && waits > 14_500, "{waits}");
        }

        moments.dedup();
        assert!(moments.len() <= 34, "{}", moments.len());
    }

    #[test]
    fn a_herd_that_was_made_at_once_is_not_probed_at_once_and_nobody_too_late() {
        let policy = Policy { probe_every_ms: 15_000, ..Policy::default() };
        let proven_at = Timestamp(1_000_007);

        let firsts: Vec<_> = (0..1_000).map(|id| policy.first_check(SandboxId(id), proven_at)).collect();

        for first in &firsts {
            assert!((11_000..=15_000).contains(&first.ms_since(proven_at)), "{first:?}");
            // A probe takes a moment, and the next one is at the same moment of its round all the same.
            assert_eq!(policy.next_check(first.after_ms(20)).ms_since(*first), 14_976);
        }
        for moment in &firsts {
            assert_eq!(firsts.iter().filter(|first| *first == moment).count(), 125);
        }
    }

    #[test]
    fn a_check_is_never_at_the_moment_of_its_proof() {
        let now = Timestamp(65_535);
        for probe_every_ms in [1, 2, 31, 33, 1_000] {
            let policy = Policy { probe_every_ms, ..Policy::default() };
            assert!(policy.next_check(now) > now);
            assert!((0..8).all(|id| policy.first_check(SandboxId(id), now) > now));
        }
    }
}
