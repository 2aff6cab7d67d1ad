//! Transitions of the lease: launch, failed start, stop, proof of absence, quarantine.

use crate::transition::TransitionBuilder;
use crate::{
    Cause, Fact, Finding, Guard, Health, Lease, Life, Live, Outcome, Receipt, ReceiptCheck, StartStep,
    StopFailure, StopOutcome, Timestamp, Verdict,
};

impl TransitionBuilder<'_> {
    /// Takes a lease on the next generation. The engine creates the instance after the commit.
    pub(crate) fn launch(&mut self) {
        let generation = self.sandbox.generation().next();
        self.begin_attempt();
        let pending = self.begin_effect_until(self.sandbox.start_by);
        self.sandbox.launches += 1;
        self.sandbox.rebooted = false;
        self.sandbox.lease = Lease::Starting { generation, step: StartStep::Launch, pending };
        self.record(Fact::LaunchBegan { generation });
    }

    pub(crate) fn launched(&mut self) {
        let generation = self.sandbox.generation();
        self.record(Fact::Launched { generation });
        if self.holds(Guard::ReadyNeedsProbe) {
            self.verify_start(StartStep::Probe);
        } else {
            self.became_live(self.now);
        }
    }

    /// Requests a check that the instance exists (`Identify`) or works (`Probe`).
    pub(crate) fn verify_start(&mut self, step: StartStep) {
        let generation = self.sandbox.generation();
        let deadline = self.now.after_ms(self.policy.probe_ms).min(self.sandbox.start_by);
        let pending = self.begin_effect_until(deadline);
        self.sandbox.lease = Lease::Starting { generation, step, pending };
    }

    /// The probe that was requested at this time has passed.
    pub(crate) fn became_live(&mut self, requested_at: Timestamp) {
        let generation = self.sandbox.generation();
        let proven_at = self.not_later(requested_at);
        let health = Health {
            verdict: Verdict::Healthy,
            verified_at: proven_at,
            next_check: self.policy.first_check(self.sandbox.id, proven_at),
            failed_probes: 0,
            inconclusive_since: None,
            observe_not_before: self.now,
        };
        // A pooled instance has no user who could send work.
        let accept_ms = self.policy.accept_ms.filter(|_| self.sandbox.pooled.is_none());
        let accept_by = accept_ms.map(|ms| self.now.after_ms(ms));
        self.sandbox.lease =
            Lease::Live(Live { generation, accept_by, idle_by: None, health, check: None, extension: None });
        self.record(Fact::BecameReady { generation });
    }

    /// Stops what exists of the instance. Then it is launched again or the sandbox ends.
    pub(crate) fn start_failed(&mut self, cause: Cause, why: String) {
        let generation = self.sandbox.generation();
        self.record(Fact::StartFailed { generation, cause, why: why.clone() });
        if self.policy.recovery.is_some() {
            self.instance_failed(cause, why);
        } else if self.may_launch_again() {
            self.begin_stop(false);
        } else {
            self.end(cause, false);
        }
    }

    fn may_launch_again(&self) -> bool {
        match self.policy.recovery {
            Some(recovery) => self.has_attempts_left(recovery),
            None => self.sandbox.launches < self.policy.launches && self.now < self.sandbox.start_by,
        }
    }

    /// Ends the sandbox. A later request can only shorten the grace period.
    pub(crate) fn end(&mut self, cause: Cause, forced: bool) {
        self.decide_end(cause);
        if !self.holds(Guard::StopCoversStart) && matches!(self.sandbox.lease, Lease::Starting { .. }) {
            let generation = self.sandbox.generation();
            return self.free(self.receipt(vec![]), generation);
        }
        self.begin_stop(forced);
    }

    /// Records the cause of the end. The first cause is kept.
    pub(crate) fn decide_end(&mut self, cause: Cause) {
        match self.sandbox.life {
            Life::Wanted => {}
            Life::Ending { .. } if !self.holds(Guard::CauseWrittenOnce) => {}
            Life::Ending { .. } | Life::Ended { .. } => return,
        }
        self.sandbox.life = Life::Ending { cause, requested_at: self.now };
        self.record(Fact::EndDecided { cause });
        self.end_every_execution(&Outcome::ended_for(cause));
    }

    /// Stops the instance, whether or not another one follows. A stop under way continues unchanged, except that a
    /// forced stop cuts its grace period short.
    pub(crate) fn begin_stop(&mut self, forced: bool) {
        match &self.sandbox.lease {
            // No instance exists, but the receipt must come from an observation made after the request.
            Lease::LaunchWaiting { .. } if self.holds(Guard::StopEndsRetries) => {
                self.stop_attempt(1, forced);
            }
            Lease::Starting { .. } | Lease::Live(_) => self.stop_attempt(1, forced),
            Lease::Stopping { attempt, forced: false, pending, .. } if forced => {
                let (generation, attempt, deadline) = (self.sandbox.generation(), *attempt, pending.deadline);
                let pending = self.begin_effect_until(deadline);
                self.sandbox.lease = Lease::Stopping { generation, attempt, forced: true, pending };
                self.record(Fact::StopBegan { generation, attempt, forced: true });
            }
            Lease::StopWaiting { .. } | Lease::Stopping { .. } if !self.holds(Guard::BackoffIsKept) => {
                self.stop_attempt(1, forced);
            }
            // All attempts were used up. A forced stop by an operator grants one more.
            Lease::Quarantined { .. } if forced => self.stop_attempt(self.policy.stop_attempts, forced),
            // An orphan was found without a lease, and is leased only to be stopped.
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
        let pending = self.begin_effect_for(self.policy.stop_attempt_ms);
        self.sandbox.lease = Lease::Stopping { generation, attempt, forced, pending };
        self.record(Fact::StopBegan { generation, attempt, forced });
    }

    pub(crate) fn stop_answered(&mut self, outcome: StopOutcome) {
        match outcome {
            StopOutcome::Gone(receipt) if receipt.proves_absence() => {
                let generation = self.sandbox.generation();
                self.free(*receipt, generation);
            }
            StopOutcome::Gone(_) => {
                self.stop_failed(StopFailure::ObservationFailed {
                    why: "the receipt does not show every check absent".into(),
                });
            }
            StopOutcome::StillPresent { what } => self.stop_failed(StopFailure::StillPresent { what }),
            StopOutcome::Unknown { .. } if !self.holds(Guard::OnlyAbsenceFrees) => {
                let generation = self.sandbox.generation();
                self.free(self.receipt(vec![]), generation);
            }
            StopOutcome::Unknown { why } => self.stop_failed(StopFailure::ObservationFailed { why }),
        }
    }

    pub(crate) fn stop_failed(&mut self, failure: StopFailure) {
        let Lease::Stopping { generation, attempt, .. } = self.sandbox.lease else {
            return;
        };
        self.record(Fact::StopFailed { generation, attempt, failure: failure.clone() });
        if attempt >= self.policy.stop_attempts && self.holds(Guard::AttemptsAreBounded) {
            self.quarantine(attempt, self.now.after_ms(self.policy.quarantine_observe_ms), failure);
        } else {
            let next_at = self.now.after_ms(self.policy.backoff_ms(attempt));
            self.sandbox.lease = Lease::StopWaiting { generation, attempts: attempt, next_at, last: failure };
        }
    }

    pub(crate) fn quarantine(&mut self, attempts: u32, next_observation: Timestamp, failure: StopFailure) {
        let generation = self.sandbox.generation();
        self.record(Fact::Quarantined { generation, failure: failure.clone() });
        self.sandbox.lease = Lease::Quarantined {
            generation,
            attempts,
            since: self.now,
            last: failure,
            next_observation,
            pending: None,
        };
        // Without this, a retry would launch whenever the quarantined instance happens to disappear, possibly much
        // later.
        if self.policy.recovery.is_some() {
            self.decide_end(Cause::ProviderError);
        }
    }

    /// Frees the lease: the instance is proven or attested to be gone, and its executions end with it.
    pub(crate) fn free(&mut self, receipt: Receipt, last: crate::Generation) {
        self.record(Fact::LeaseFreed { generation: last });
        self.sandbox.lease = Lease::Free { last };
        self.requeue_interrupted(&receipt);
        if self.holds(Guard::NoExecutionOutlivesItsInstance) {
            self.finish_running_executions(&receipt);
        }
        if !self.holds(Guard::StopWins) && self.may_launch_again() {
            self.sandbox.life = Life::Wanted;
        }
        self.finish_or_relaunch(receipt);
    }

    fn finish_running_executions(&mut self, receipt: &Receipt) {
        let ran = self.sandbox.executions.extract_if(.., |execution| execution.is_on_instance());
        let ended: Vec<_> = ran.collect();
        for execution in ended {
            let lost =
                || Outcome::lost(format!("the instance of generation {} is gone", receipt.generation.0));
            let outcome = execution.decided_outcome().cloned().unwrap_or_else(lost);
            self.record_end(execution, outcome);
        }
    }

    /// After the lease is free: launches the next attempt if the sandbox is still wanted, otherwise ends it.
    fn finish_or_relaunch(&mut self, receipt: Receipt) {
        if matches!(self.sandbox.life, Life::Wanted) {
            let cause = match self.last_execution_cause() {
                Some(cause) => cause,
                None if self.may_launch_again() => return self.schedule_next_launch(),
                None if self.is_past(self.sandbox.expires_at) => Cause::MaxLife,
                None if self.is_past(self.sandbox.start_by) => Cause::StartDeadline,
                None => Cause::StartFailed,
            };
            self.decide_end(cause);
        }
        if let Life::Ending { cause, .. } = self.sandbox.life {
            self.sandbox.life = Life::Ended { cause, at: self.now, receipt: Box::new(receipt) };
            self.record(Fact::Ended { cause });
        }
    }

    /// A receipt whose checks come from an observation instead of a stop.
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

    /// A receipt from an operator's attestation. It names the operator, and its check stays unknown.
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
