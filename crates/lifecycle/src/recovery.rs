//! Retries on a new instance. If the policy allows it, a failed instance is replaced, and the executions it
//! interrupted run again on the next one. Attempts, causes and waits are part of the stored state, so a crash loses
//! none of them.

use pinfold_backoff::Backoff;
use serde::{Deserialize, Serialize};

use crate::transition::TransitionBuilder;
use crate::{
    Cause, Execution, ExecutionState, Fact, Generation, Guard, Lease, Life, Outcome, Receipt, Timestamp,
};

/// Number of attempts, and the first wait between two of them; each further wait is twice as long. Replaces
/// [`launches`](crate::Policy::launches).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recovery {
    pub attempts: u32,
    pub backoff_ms: u64,
}

impl Default for Recovery {
    fn default() -> Self {
        Self { attempts: 3, backoff_ms: 1_000 }
    }
}

impl Recovery {
    /// The wait after this many attempts.
    #[must_use]
    pub fn wait_ms(&self, attempts: u32) -> u64 {
        Backoff::from_ms(self.backoff_ms, u64::MAX).pause_ms_after(attempts)
    }
}

/// One attempt of an execution, on the instance of one generation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Attempt {
    pub generation: Generation,
    /// `None`: the process was never observed to start.
    pub started_at: Option<Timestamp>,
    /// `None`: the attempt is still under way.
    pub end: Option<AttemptEnd>,
    /// Proof that the attempt's instance is gone. `None`: the execution ended first, and the sandbox's own receipt is
    /// the proof.
    pub receipt: Option<Box<Receipt>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AttemptEnd {
    pub at: Timestamp,
    pub cause: Cause,
    /// Details in words, where the cause alone is not enough.
    pub why: Option<String>,
}

impl Execution {
    /// The attempt on the instance of this generation. Adds it if it is new.
    fn attempt_in(&mut self, generation: Generation) -> Option<&mut Attempt> {
        if self.attempts.last().is_none_or(|last| last.generation < generation) {
            self.attempts.push(Attempt { generation, started_at: None, end: None, receipt: None });
        }
        self.attempts.last_mut()
    }
}

impl TransitionBuilder<'_> {
    /// Handles a failed instance: another attempt after this instance is proven gone if a retry may succeed, otherwise
    /// the end.
    pub(crate) fn instance_failed(&mut self, cause: Cause, why: String) {
        let cause = self.finish_collecting().unwrap_or(cause);
        if !self.may_retry(cause) {
            self.explain_end(why);
            return self.end(cause, false);
        }
        self.record_failed_attempt(cause, why);
        if self.holds(Guard::RetryWaitsForAbsence) {
            self.begin_stop(false);
        } else {
            self.launch();
        }
    }

    /// Like [`instance_failed`](Self::instance_failed), for an instance that is already proven gone.
    pub(crate) fn absent_instance_failed(&mut self, cause: Cause, why: String) {
        let cause = self.finish_collecting().unwrap_or(cause);
        if self.may_retry(cause) {
            self.record_failed_attempt(cause, why);
        } else {
            self.explain_end(why);
            self.decide_end(cause);
        }
    }

    /// Keeps why the sandbox is about to end, unless its end is decided already.
    fn explain_end(&mut self, why: String) {
        if matches!(self.sandbox.life, Life::Wanted) && self.sandbox.end_reason.is_none() {
            self.sandbox.end_reason = Some(why);
        }
    }

    pub(crate) fn may_retry(&self, cause: Cause) -> bool {
        let wanted = matches!(self.sandbox.life, Life::Wanted) && self.sandbox.pooled.is_none();
        let can_help = cause.is_retryable();
        wanted && can_help && self.policy.recovery.is_some_and(|recovery| self.has_attempts_left(recovery))
    }

    pub(crate) fn has_attempts_left(&self, recovery: Recovery) -> bool {
        let left = self.sandbox.launches < recovery.attempts || !self.holds(Guard::RetriesAreBounded);
        left && self.now < self.sandbox.expires_at
    }

    /// Executions whose outcome is decided keep it; all others will run again.
    fn record_failed_attempt(&mut self, cause: Cause, why: String) {
        let (generation, at) = (self.sandbox.generation(), self.now);
        let start_by = self.sandbox.expires_at;
        for execution in &mut self.sandbox.executions {
            let next = match execution.state {
                ExecutionState::Queued { .. } => ExecutionState::Queued { start_by },
                ExecutionState::Preparing { .. }
                | ExecutionState::Starting { .. }
                | ExecutionState::Running { .. }
                | ExecutionState::Collecting { .. } => ExecutionState::Interrupted,
                ExecutionState::Ending { ref mut kill, .. } => {
                    *kill = None;
                    continue;
                }
                ExecutionState::Interrupted | ExecutionState::Ended { .. } => continue,
            };
            execution.state = next;
            if let Some(attempt) = execution.attempt_in(generation) {
                attempt.end = Some(AttemptEnd { at, cause, why: Some(why.clone()) });
            }
        }
        self.record(Fact::AttemptFailed { generation, cause, why });
    }

    pub(crate) fn record_attempt_start(&mut self, index: usize) {
        let (generation, now) = (self.sandbox.generation(), self.now);
        if self.policy.recovery.is_some()
            && let Some(attempt) = self.sandbox.executions[index].attempt_in(generation)
        {
            attempt.started_at = Some(now);
        }
    }

    /// Records the end of the current attempt, unless the attempt has already ended.
    pub(crate) fn record_attempt_end(&self, execution: &mut Execution, outcome: &Outcome) {
        let Outcome { cause, detail, .. } = outcome.clone();
        if self.policy.recovery.is_some()
            && let Some(attempt) = execution.attempt_in(self.sandbox.generation())
            && attempt.end.is_none()
        {
            attempt.end = Some(AttemptEnd { at: self.now, cause, why: detail });
        }
    }

    /// The instance of a failed attempt is gone: executions it interrupted are queued for the next one.
    pub(crate) fn requeue_interrupted(&mut self, receipt: &Receipt) {
        let start_by = self.sandbox.expires_at;
        for execution in &mut self.sandbox.executions {
            if let Some(last) = execution.attempts.last_mut().filter(|last| last.receipt.is_none()) {
                last.receipt = Some(Box::new(receipt.clone()));
            }
            if matches!(execution.state, ExecutionState::Interrupted) {
                execution.state = ExecutionState::Queued { start_by };
            }
        }
    }

    /// Launches the next instance, after the backoff if an earlier attempt has failed.
    pub(crate) fn schedule_next_launch(&mut self) {
        let attempts = self.sandbox.launches;
        match self.policy.recovery {
            Some(recovery) if attempts > 0 => {
                let (last, at) = (self.sandbox.generation(), self.now.after_ms(recovery.wait_ms(attempts)));
                self.sandbox.lease = Lease::LaunchWaiting { last, next_at: at };
                self.record(Fact::RetryScheduled { attempts, at });
            }
            Some(_) | None => self.launch(),
        }
    }

    /// Every attempt gets the full start timeout.
    pub(crate) fn begin_attempt(&mut self) {
        if self.policy.recovery.is_none() {
            return;
        }
        self.sandbox.start_by = self.now.after_ms(self.policy.start_ms);
        let until = self.sandbox.start_by.after_ms(self.policy.queued_ms);
        for execution in &mut self.sandbox.executions {
            if let ExecutionState::Queued { start_by } = &mut execution.state {
                *start_by = until;
            }
        }
    }

    /// When an execution that is requested now must have started.
    pub(crate) fn queued_until(&self) -> Timestamp {
        let at_once = self.now.after_ms(self.policy.queued_ms);
        match (self.policy.recovery, &self.sandbox.lease) {
            (None, _) | (Some(_), Lease::Live(_)) => at_once,
            (Some(_), Lease::Starting { .. }) => self.sandbox.start_by.after_ms(self.policy.queued_ms),
            // The next launch sets the start deadline.
            (
                Some(_),
                Lease::Free { .. }
                | Lease::LaunchWaiting { .. }
                | Lease::Stopping { .. }
                | Lease::StopWaiting { .. }
                | Lease::Quarantined { .. },
            ) => self.sandbox.expires_at,
        }
    }
}
