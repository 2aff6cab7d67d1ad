//! Timeouts, retries and limits of one sandbox. Fixed when the sandbox is created, so that every node decides the
//! same.

use serde::{Deserialize, Serialize};

use crate::{Guards, Recovery, SandboxId, Timestamp};

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// From the launch request until the instance has passed its probe.
    pub start_ms: u64,
    /// Launches before the start fails, unless `recovery` is set.
    pub launches: u32,
    /// From ready until the first execution starts. `None`: no deadline except idleness.
    pub accept_ms: Option<u64>,
    /// One probe or observation.
    pub probe_ms: u64,
    /// Interval of routine checks.
    pub probe_every_ms: u64,
    /// Wait before an inconclusive check is repeated.
    pub observe_retry_ms: u64,
    /// How long a passed probe proves that the sandbox is ready.
    pub evidence_ms: u64,
    /// How long checks may stay inconclusive before the sandbox is ended.
    pub doubt_ms: u64,
    /// An unhealthy sandbox of this age is ended; a younger one is only reported.
    pub unhealthy_age_ms: u64,
    /// Probes that fail in a row before they end such a sandbox. A single one may fail because the host is busy.
    pub failed_probes: u32,
    /// From SIGTERM to SIGKILL.
    pub grace_ms: u64,
    /// Deadline of one stop attempt.
    pub stop_attempt_ms: u64,
    /// Stop attempts before quarantine.
    pub stop_attempts: u32,
    /// Waits between stop attempts. The last one repeats.
    pub stop_backoff_ms: Vec<u64>,
    /// Interval of observations in quarantine.
    pub quarantine_observe_ms: u64,
    /// From the request for an execution until its process starts.
    pub queued_ms: u64,
    /// From the decision to kill an execution until its process is proven gone.
    pub kill_ms: u64,
    /// From the end of a process until its artifacts are collected.
    pub collect_ms: u64,
    /// The same after a kill. Also the least time for collecting, however little of the execution's own time is left.
    pub collect_after_kill_ms: u64,
    /// Longest time without executions, CPU use and egress. `None`: never idle.
    pub idle_ms: Option<u64>,
    pub max_life_ms: u64,
    /// Executions that run concurrently. Further ones are queued.
    pub max_concurrent: u32,
    pub queue_length: u32,
    pub jobs: u32,
    /// The sandbox ends after its last execution.
    pub one_shot: bool,
    /// The sandbox ends together with the node that created it.
    pub ends_with_owner: bool,
    /// Executions lost with their instance are retried, whether or not they had effects. `None`: they end with their
    /// instance.
    #[serde(skip_serializing_if = "Option::is_none")]
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
            observe_retry_ms: 2_000,
            evidence_ms: 30_000,
            doubt_ms: 60_000,
            unhealthy_age_ms: 600_000,
            failed_probes: 3,
            grace_ms: 2_000,
            stop_attempt_ms: 45_000,
            stop_attempts: 5,
            stop_backoff_ms: vec![5_000, 10_000, 30_000, 120_000, 300_000],
            quarantine_observe_ms: 600_000,
            queued_ms: 30_000,
            kill_ms: 10_000,
            collect_ms: 30_000,
            collect_after_kill_ms: 3_000,
            idle_ms: Some(600_000),
            max_life_ms: 86_400_000,
            max_concurrent: 16,
            queue_length: 64,
            jobs: 64,
            one_shot: false,
            ends_with_owner: false,
            recovery: None,
            guards: Guards::default(),
        }
    }
}

/// Number of time slots per probe interval. Routine probes are aligned to slots.
const PROBE_SLOTS: u64 = 32;
/// Instances launched together spread their first probe over this many slots, and keep their slot afterwards.
const FIRST_PROBE_SLOTS: u128 = 8;

impl Policy {
    /// When an instance that passed a check at `proven_at` is checked next. The time is rounded down to a slot, so
    /// that many instances share wake-ups and commits.
    #[must_use]
    pub fn next_check(&self, proven_at: Timestamp) -> Timestamp {
        self.slot_before(proven_at.after_ms(self.probe_every_ms))
    }

    /// The first check of a new instance. It is up to a quarter of the interval earlier, so that instances launched
    /// together are not probed in one burst for the rest of their lives.
    #[must_use]
    pub fn first_check(&self, id: SandboxId, proven_at: Timestamp) -> Timestamp {
        let moments = u64::try_from(id.0 % FIRST_PROBE_SLOTS).unwrap_or(0);
        let early_ms = self.probe_every_ms / PROBE_SLOTS * moments;
        self.slot_before(proven_at.after_ms(self.probe_every_ms - early_ms))
    }

    fn slot_before(&self, latest: Timestamp) -> Timestamp {
        let between = i64::try_from(self.probe_every_ms / PROBE_SLOTS).unwrap_or(i64::MAX).max(1);
        Timestamp(latest.0.saturating_sub(latest.0.rem_euclid(between)))
    }

    /// The wait after this many failed stop attempts.
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
    fn probes_are_aligned_to_slots_and_never_late() {
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
    fn first_probes_of_a_burst_are_spread_and_never_late() {
        let policy = Policy { probe_every_ms: 15_000, ..Policy::default() };
        let proven_at = Timestamp(1_000_007);

        let firsts: Vec<_> = (0..1_000).map(|id| policy.first_check(SandboxId(id), proven_at)).collect();

        for first in &firsts {
            assert!((11_000..=15_000).contains(&first.ms_since(proven_at)), "{first:?}");
            // The probe itself takes time, but the next one still falls on the same slot.
            assert_eq!(policy.next_check(first.after_ms(20)).ms_since(*first), 14_976);
        }
        for moment in &firsts {
            assert_eq!(firsts.iter().filter(|first| *first == moment).count(), 125);
        }
    }

    #[test]
    fn next_check_is_always_after_the_proof() {
        let now = Timestamp(65_535);
        for probe_every_ms in [1, 2, 31, 33, 1_000] {
            let policy = Policy { probe_every_ms, ..Policy::default() };
            assert!(policy.next_check(now) > now);
            assert!((0..8).all(|id| policy.first_check(SandboxId(id), now) > now));
        }
    }
}
