//! Trying again: where the policy says so, a body that fails its sandbox is replaced by the next one, and what it
//! interrupted runs anew there. The tries, their causes and the wait between them are state like everything else, so
//! that a crash at any instant forgets none of them.

use serde::{Deserialize, Serialize};

use crate::turn::Turn;
use crate::{
    Cause, Execution, ExecutionState, Fact, Generation, Guard, Lease, Life, Outcome, Receipt, Timestamp,
};

/// How often a body is tried, and how long the first wait between two of them is; each further one is twice as long.
/// It takes the place of [`launches`](crate::Policy::launches).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recovery {
    pub tries: u32,
    pub backoff_ms: u64,
}

impl Default for Recovery {
    fn default() -> Self {
        Self { tries: 3, backoff_ms: 1_000 }
    }
}

impl Recovery {
    /// The wait after so many tries.
    #[must_use]
    pub fn wait_ms(&self, tries: u32) -> u64 {
        let doubled = 1u64.checked_shl(tries.saturating_sub(1)).unwrap_or(u64::MAX);
        self.backoff_ms.saturating_mul(doubled)
    }
}

/// One try of an execution: what became of it in the body of this generation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Attempt {
    pub generation: Generation,
    /// None: its process was never seen to start.
    pub started_at: Option<Timestamp>,
    /// None: it goes on.
    pub end: Option<AttemptEnd>,
    /// The proof that its body is gone. None: the execution ended before it, and its proof is the sandbox's own.
    pub receipt: Option<Box<Receipt>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AttemptEnd {
    pub at: Timestamp,
    pub cause: Cause,
    /// What was seen, in words, where the cause alone does not tell.
    pub why: Option<String>,
}

impl Execution {
    /// Its try in the body of this generation.
    fn attempt_in(&mut self, generation: Generation) -> Option<&mut Attempt> {
        if self.attempts.last().is_none_or(|last| last.generation < generation) {
            self.attempts.push(Attempt { generation, started_at: None, end: None, receipt: None });
        }
        self.attempts.last_mut()
    }
}

impl Turn<'_> {
    /// The body fails its sandbox: where trying again can help, another one once this one is proven gone. Else the end.
    pub(crate) fn fail(&mut self, cause: Cause, why: String) {
        if !self.may_recover(cause) {
            return self.end(cause, false);
        }
        self.note_failed_try(cause, why);
        if self.holds(Guard::NextTryWaitsForAbsence) {
            self.begin_stop(false);
        } else {
            self.launch();
        }
    }

    /// The same for a body that is known to be gone already.
    pub(crate) fn fail_without_body(&mut self, cause: Cause, why: String) {
        if self.may_recover(cause) {
            self.note_failed_try(cause, why);
        } else {
            self.decide_end(cause);
        }
    }

    pub(crate) fn may_recover(&self, cause: Cause) -> bool {
        let wanted = matches!(self.sandbox.life, Life::Wanted) && self.sandbox.pooled.is_none();
        let can_help = cause.may_be_tried_again();
        wanted && can_help && self.policy.recovery.is_some_and(|recovery| self.has_tries_left(recovery))
    }

    pub(crate) fn has_tries_left(&self, recovery: Recovery) -> bool {
        let left = self.sandbox.launches < recovery.tries || !self.holds(Guard::TriesAreBounded);
        left && self.now < self.sandbox.expires_at
    }

    /// What is decided stays decided; everything else that has not ended is to run again.
    fn note_failed_try(&mut self, cause: Cause, why: String) {
        let (generation, at) = (self.sandbox.generation(), self.now);
        let start_by = self.sandbox.expires_at;
        for execution in &mut self.sandbox.executions {
            let next = match execution.state {
                ExecutionState::Queued { .. } => ExecutionState::Queued { start_by },
                ExecutionState::Starting { .. } | ExecutionState::Running { .. } => {
                    ExecutionState::Interrupted
                }
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
        self.record(Fact::TryFailed { generation, cause, why });
    }

    pub(crate) fn note_start(&mut self, index: usize) {
        let (generation, now) = (self.sandbox.generation(), self.now);
        if self.policy.recovery.is_some()
            && let Some(attempt) = self.sandbox.executions[index].attempt_in(generation)
        {
            attempt.started_at = Some(now);
        }
    }

    /// The last try has its end too. One that was stopped before its next try began has none of its own.
    pub(crate) fn note_end(&self, execution: &mut Execution, outcome: &Outcome) {
        let Outcome { cause, detail, .. } = outcome.clone();
        if self.policy.recovery.is_some()
            && let Some(attempt) = execution.attempt_in(self.sandbox.generation())
            && attempt.end.is_none()
        {
            attempt.end = Some(AttemptEnd { at: self.now, cause, why: detail });
        }
    }

    /// The body of a failed try is gone: what it interrupted waits for the next one.
    pub(crate) fn queue_again(&mut self, receipt: &Receipt) {
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

    /// With nothing physical left: the next body, after its wait if an earlier one has failed.
    pub(crate) fn next_launch(&mut self) {
        let tries = self.sandbox.launches;
        match self.policy.recovery {
            Some(recovery) if tries > 0 => {
                let (last, at) = (self.sandbox.generation(), self.now.after_ms(recovery.wait_ms(tries)));
                self.sandbox.lease = Lease::LaunchWaiting { last, next_at: at };
                self.record(Fact::NextTryWaits { tries, at });
            }
            Some(_) | None => self.launch(),
        }
    }

    /// Each try has the whole time to start.
    pub(crate) fn begin_try(&mut self) {
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

    /// When an execution that is asked for now must have started.
    pub(crate) fn queued_until(&self) -> Timestamp {
        let at_once = self.now.after_ms(self.policy.queued_ms);
        match (self.policy.recovery, &self.sandbox.lease) {
            (None, _) | (Some(_), Lease::Live(_)) => at_once,
            (Some(_), Lease::Starting { .. }) => self.sandbox.start_by.after_ms(self.policy.queued_ms),
            // The next try gives it its time.
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
