//! How a body comes and goes: launch, failed start, stop, proof, quarantine. Only here does a lease change hands.

use crate::turn::Turn;
use crate::{
    Cause, ExecutionState, Fact, Finding, Guard, Health, Lease, Life, Live, Outcome, Receipt, ReceiptCheck,
    StartStep, StopFailure, StopOutcome, Timestamp, Verdict,
};

impl Turn<'_> {
    /// Takes a lease on the next generation. The body is made once this is committed.
    pub(crate) fn launch(&mut self) {
        let generation = self.sandbox.generation().next();
        self.begin_try();
        let duty = self.duty_until(self.sandbox.start_by);
        self.sandbox.launches += 1;
        self.sandbox.rebooted = false;
        self.sandbox.lease = Lease::Starting { generation, step: StartStep::Launch, duty };
        self.record(Fact::LaunchBegan { generation });
    }

    pub(crate) fn launched(&mut self) {
        let generation = self.sandbox.generation();
        self.record(Fact::Launched { generation });
        if self.holds(Guard::ReadyNeedsProbe) {
            self.prove_start(StartStep::Probe);
        } else {
            self.became_live(self.now);
        }
    }

    /// Asks whether the body is there (`Identify`) or works (`Probe`).
    pub(crate) fn prove_start(&mut self, step: StartStep) {
        let generation = self.sandbox.generation();
        let deadline = self.now.after_ms(self.policy.probe_ms).min(self.sandbox.start_by);
        let duty = self.duty_until(deadline);
        self.sandbox.lease = Lease::Starting { generation, step, duty };
    }

    /// The probe that was asked then has passed.
    pub(crate) fn became_live(&mut self, asked_at: Timestamp) {
        let generation = self.sandbox.generation();
        let proven_at = self.not_later(asked_at);
        let health = Health {
            verdict: Verdict::Healthy,
            verified_at: proven_at,
            next_check: self.policy.first_check(self.sandbox.id, proven_at),
            doubt_since: None,
            hold_until: self.now,
        };
        // Nobody has asked anything of a body in the pool.
        let accept_ms = self.policy.accept_ms.filter(|_| self.sandbox.pooled.is_none());
        let accept_by = accept_ms.map(|ms| self.now.after_ms(ms));
        self.sandbox.lease =
            Lease::Live(Live { generation, accept_by, idle_by: None, health, check: None, extension: None });
        self.record(Fact::BecameReady { generation });
    }

    /// What was made of the body is stopped; then another try, or the end.
    pub(crate) fn start_failed(&mut self, cause: Cause, why: String) {
        let generation = self.sandbox.generation();
        self.record(Fact::StartFailed { generation, cause, why: why.clone() });
        if self.policy.recovery.is_some() {
            self.fail(cause, why);
        } else if self.may_launch_again() {
            self.begin_stop(false);
        } else {
            self.end(cause, false);
        }
    }

    fn may_launch_again(&self) -> bool {
        match self.policy.recovery {
            Some(recovery) => self.has_tries_left(recovery),
            None => self.sandbox.launches < self.policy.launches && self.now < self.sandbox.start_by,
        }
    }

    /// Ends the sandbox. A later wish can only make it quicker.
    pub(crate) fn end(&mut self, cause: Cause, forced: bool) {
        self.decide_end(cause);
        if !self.holds(Guard::StopCoversStart) && matches!(self.sandbox.lease, Lease::Starting { .. }) {
            let generation = self.sandbox.generation();
            return self.free(self.receipt(vec![]), generation);
        }
        self.begin_stop(forced);
    }

    /// The first cause stays.
    pub(crate) fn decide_end(&mut self, cause: Cause) {
        match self.sandbox.life {
            Life::Wanted => {}
            Life::Ending { .. } if !self.holds(Guard::CauseWrittenOnce) => {}
            Life::Ending { .. } | Life::Ended { .. } => return,
        }
        self.sandbox.life = Life::Ending { cause, asked_at: self.now };
        self.record(Fact::EndDecided { cause });
        self.end_every_execution(&Outcome::ended_for(cause));
    }

    /// Ends the body, whatever is wanted afterwards. A stop that is under way goes on as it is, but a forced
    /// one cuts its grace short.
    pub(crate) fn begin_stop(&mut self, forced: bool) {
        match &self.sandbox.lease {
            // Without a body, too: the receipt is of a look that comes after the wish.
            Lease::LaunchWaiting { .. } if self.holds(Guard::StopEndsTheTries) => {
                self.stop_attempt(1, forced);
            }
            Lease::Starting { .. } | Lease::Live(_) => self.stop_attempt(1, forced),
            Lease::Stopping { attempt, forced: false, duty, .. } if forced => {
                let (generation, attempt, deadline) = (self.sandbox.generation(), *attempt, duty.deadline);
                let duty = self.duty_until(deadline);
                self.sandbox.lease = Lease::Stopping { generation, attempt, forced: true, duty };
                self.record(Fact::StopBegan { generation, attempt, forced: true });
            }
            Lease::StopWaiting { .. } | Lease::Stopping { .. } if !self.holds(Guard::BackoffIsKept) => {
                self.stop_attempt(1, forced);
            }
            // All attempts were used up. Whoever insists knows what has changed since, and gets one more.
            Lease::Quarantined { .. } if forced => self.stop_attempt(self.policy.stop_attempts, forced),
            // An orphan: found without a lease, and leased only to be stopped.
            Lease::Free { .. } if self.is_orphan() => self.stop_attempt(1, forced),
            Lease::Free { .. }
            | Lease::LaunchWaiting { .. }
            | Lease::Stopping { .. }
            | Lease::StopWaiting { .. }
            | Lease::Quarantined { .. } => {}
        }
    }

    fn is_orphan(&self) -> bool {
        matches!(self.sandbox.life, Life::Ending { cause: Cause::Orphan, .. })
    }

    pub(crate) fn stop_attempt(&mut self, attempt: u32, forced: bool) {
        let generation = self.sandbox.generation();
        let duty = self.duty_for(self.policy.stop_attempt_ms);
        self.sandbox.lease = Lease::Stopping { generation, attempt, forced, duty };
        self.record(Fact::StopBegan { generation, attempt, forced });
    }

    pub(crate) fn stop_answered(&mut self, outcome: StopOutcome) {
        match outcome {
            StopOutcome::Gone(receipt) if receipt.proves_absence() => {
                let generation = self.sandbox.generation();
                self.free(*receipt, generation);
            }
            StopOutcome::Gone(_) => {
                self.stop_failed(StopFailure::LookFailed {
                    why: "the receipt does not show every check absent".into(),
                });
            }
            StopOutcome::StillPresent { what } => self.stop_failed(StopFailure::StillPresent { what }),
            StopOutcome::Unknown { .. } if !self.holds(Guard::OnlyAbsenceFrees) => {
                let generation = self.sandbox.generation();
                self.free(self.receipt(vec![]), generation);
            }
            StopOutcome::Unknown { why } => self.stop_failed(StopFailure::LookFailed { why }),
        }
    }

    pub(crate) fn stop_failed(&mut self, failure: StopFailure) {
        let Lease::Stopping { generation, attempt, .. } = self.sandbox.lease else {
            return;
        };
        self.record(Fact::StopFailed { generation, attempt, failure: failure.clone() });
        if attempt >= self.policy.stop_attempts && self.holds(Guard::AttemptsAreBounded) {
            self.quarantine(attempt, self.now.after_ms(self.policy.quarantine_look_ms), failure);
        } else {
            let next_at = self.now.after_ms(self.policy.backoff_ms(attempt));
            self.sandbox.lease = Lease::StopWaiting { generation, attempts: attempt, next_at, last: failure };
        }
    }

    pub(crate) fn quarantine(&mut self, attempts: u32, next_look: Timestamp, failure: StopFailure) {
        let generation = self.sandbox.generation();
        self.record(Fact::Quarantined { generation, failure: failure.clone() });
        self.sandbox.lease = Lease::Quarantined {
            generation,
            attempts,
            since: self.now,
            last: failure,
            next_look,
            look: None,
        };
        // What could not be ended in all this time is not followed by another try whenever it happens to be gone.
        if self.policy.recovery.is_some() {
            self.decide_end(Cause::ProviderError);
        }
    }

    /// The body is proven gone, or attested to be. What ran in it has ended with it.
    pub(crate) fn free(&mut self, receipt: Receipt, last: crate::Generation) {
        self.record(Fact::LeaseFreed { generation: last });
        self.sandbox.lease = Lease::Free { last };
        self.queue_again(&receipt);
        if self.holds(Guard::NoExecutionOutlivesItsBody) {
            self.finish_what_ran(&receipt);
        }
        if !self.holds(Guard::StopWins) && self.may_launch_again() {
            self.sandbox.life = Life::Wanted;
        }
        self.settle(receipt);
    }

    fn finish_what_ran(&mut self, receipt: &Receipt) {
        let ran = self.sandbox.executions.extract_if(.., |execution| execution.may_have_a_process());
        let ended: Vec<_> = ran.collect();
        for execution in ended {
            let outcome = match &execution.state {
                ExecutionState::Ending { outcome, .. } => outcome.clone(),
                ExecutionState::Queued { .. }
                | ExecutionState::Starting { .. }
                | ExecutionState::Running { .. }
                | ExecutionState::Interrupted
                | ExecutionState::Ended { .. } => {
                    Outcome::lost(format!("the body of generation {} is gone", receipt.generation.0))
                }
            };
            self.record_end(execution, outcome);
        }
    }

    /// With nothing physical left: another try if it is still wanted, else the end.
    fn settle(&mut self, receipt: Receipt) {
        if matches!(self.sandbox.life, Life::Wanted) {
            let cause = match self.last_work_ended() {
                Some(cause) => cause,
                None if self.may_launch_again() => return self.next_launch(),
                None if self.is_over(self.sandbox.expires_at) => Cause::MaxLife,
                None if self.is_over(self.sandbox.start_by) => Cause::StartDeadline,
                None => Cause::StartFailed,
            };
            self.decide_end(cause);
        }
        if let Life::Ending { cause, .. } = self.sandbox.life {
            self.sandbox.life = Life::Ended { cause, at: self.now, receipt: Box::new(receipt) };
            self.record(Fact::Ended { cause });
        }
    }

    /// A receipt for checks that were made by a look, not by a stop.
    pub(crate) fn receipt(&self, checks: Vec<ReceiptCheck>) -> Receipt {
        Receipt {
            generation: self.sandbox.generation(),
            verified_at: self.now,
            checks,
            freed_bytes: 0,
            used: None,
            attested: None,
        }
    }

    /// The receipt of an operator's word: it says who, and its check stays unknown.
    pub(crate) fn attested_receipt(&self, attestation: crate::Attestation) -> Receipt {
        let check = ReceiptCheck {
            kind: "everything".into(),
            result: Finding::Unknown,
            means: "attestation".into(),
            detail: Some(attestation.reason.clone()),
        };
        Receipt { attested: Some(attestation), ..self.receipt(vec![check]) }
    }
}
