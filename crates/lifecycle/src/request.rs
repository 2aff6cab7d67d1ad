//! Requests from users, operators and engines. A request can be refused with a reason. Repeating a request is safe.

use crate::transition::TransitionBuilder;
use crate::{
    Attestation, Cause, Context, ExecutionId, ExecutionKind, ExecutionLimits, Fact, FileTransfers,
    Generation, Guard, Lease, Life, NodeId, Outcome, Sandbox, Shape, Transition,
};

/// A change that a user, an operator or an engine asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Request {
    /// Run a command. `may_queue`: wait for a slot if all are taken.
    Execute {
        id: ExecutionId,
        kind: ExecutionKind,
        limits: ExecutionLimits,
        transfers: FileTransfers,
        may_queue: bool,
    },
    /// End one execution.
    Cancel { id: ExecutionId, cause: Cause },
    /// End the sandbox. Legal in every state. `grace_ms` replaces the sandbox's own grace period; with 0 it kills at
    /// once, also where a stop with a grace period is under way.
    Stop { cause: Cause, grace_ms: Option<u64> },
    /// End a sandbox that cleanup found. Refused once anyone ends it, so that of several cleanup runs one counts it.
    CleanUp { cause: Cause, grace_ms: Option<u64> },
    /// End the sandbox, and delete its row once the instance is proven gone.
    Forget,
    /// Replace the current instance by a new one.
    Restart { cause: Cause },
    /// Restart the idle timeout.
    KeepAlive,
    /// Turn a pooled instance into the requester's sandbox, under the requester's policy.
    Claim { shape: Box<Shape> },
    /// End a pooled instance. Refused once it has been claimed.
    DiscardPooled { cause: Cause },
    /// An operator's statement that a quarantined instance is gone.
    Attest { by: String, reason: String },
    /// Take over the ownership and the pending effects of a dead node.
    Adopt { dead: NodeId, rebooted: bool },
    /// An instance of this generation was found although the lease is free. It is leased again, to be stopped.
    LeaseStray { generation: Generation },
}

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    #[error("the sandbox is being ended ({cause})")]
    Ending { cause: Cause },
    #[error("the sandbox has ended ({cause})")]
    Ended { cause: Cause },
    #[error("{running} executions are running or queued; the limit is {capacity}")]
    Busy { running: u32, capacity: u32 },
    #[error("the sandbox has no such execution")]
    NoSuchExecution,
    #[error("only a quarantined sandbox can be attested to be gone")]
    NotQuarantined,
    #[error("the sandbox has no instance to replace")]
    NoInstance,
    #[error("an instance is already leased")]
    Leased,
    #[error("the instance is in the pool and has not been claimed")]
    Pooled,
    #[error("the sandbox is not in the pool")]
    NotPooled,
    #[error("the pooled instance has other limits or another image")]
    OtherShape,
    #[error("the pooled instance has no recent passed probe")]
    ProbeStale,
    #[error("the pooled instance expires too soon")]
    ExpiresTooSoon,
    #[error("a sandbox that ends with its owner cannot use a pooled instance")]
    EndsWithOwner,
}

/// Applies a request and returns the transition to commit.
pub fn request(sandbox: &Sandbox, request: Request, ctx: Context<'_>) -> Result<Transition, Refusal> {
    let mut builder = TransitionBuilder::begin(sandbox, ctx);
    builder.apply_request(request)?;
    Ok(builder.finish())
}

impl TransitionBuilder<'_> {
    fn apply_request(&mut self, request: Request) -> Result<(), Refusal> {
        match request {
            Request::Execute { id, kind, limits, transfers, may_queue } => {
                self.must_be_wanted()?;
                self.must_not_be_pooled()?;
                self.queue_execution(id, kind, limits, transfers, may_queue)?;
            }
            Request::Cancel { id, cause } => self.cancel(id, cause)?,
            Request::Stop { cause, grace_ms } => self.stop(cause, grace_ms),
            Request::CleanUp { cause, grace_ms } => {
                self.must_be_wanted()?;
                self.stop(cause, grace_ms);
            }
            Request::Forget => self.forget(),
            Request::Restart { cause } => self.restart(cause)?,
            Request::KeepAlive => {
                self.must_be_wanted()?;
                self.keep_alive();
            }
            Request::Claim { shape } => self.claim(&shape)?,
            Request::DiscardPooled { cause } => self.discard_pooled(cause)?,
            Request::Attest { by, reason } => self.attest(by, reason)?,
            Request::Adopt { dead, rebooted } => self.adopt(dead, rebooted),
            Request::LeaseStray { generation } => self.lease_stray(generation)?,
        }
        Ok(())
    }

    pub(crate) fn must_be_wanted(&self) -> Result<(), Refusal> {
        match self.sandbox.life {
            Life::Wanted => Ok(()),
            Life::Ending { cause, .. } => Err(Refusal::Ending { cause }),
            Life::Ended { cause, .. } => Err(Refusal::Ended { cause }),
        }
    }

    fn cancel(&mut self, id: ExecutionId, cause: Cause) -> Result<(), Refusal> {
        if !self.sandbox.executions.iter().any(|execution| execution.id == id) {
            return Err(Refusal::NoSuchExecution);
        }
        self.end_execution(id, Outcome::ended_for(cause));
        Ok(())
    }

    fn stop(&mut self, cause: Cause, grace_ms: Option<u64>) {
        match grace_ms {
            Some(ms) if ms > 0 && matches!(self.sandbox.life, Life::Wanted) => self.sandbox.grace_ms = ms,
            Some(_) | None => {}
        }
        self.end(cause, grace_ms == Some(0));
        // A user is waiting for the stop, so the next observation is made now.
        if matches!(self.sandbox.lease, Lease::Quarantined { pending: None, .. }) {
            self.begin_quarantine_observation();
        }
    }

    fn forget(&mut self) {
        if !self.sandbox.forget {
            self.sandbox.forget = true;
            self.record(Fact::ForgetRequested);
        }
        self.stop(Cause::StoppedByUser, None);
        if !self.holds(Guard::ForgetWaitsForAbsence) {
            let (generation, receipt) = (self.sandbox.generation(), self.receipt(vec![]));
            self.free(receipt, generation);
        }
    }

    fn restart(&mut self, cause: Cause) -> Result<(), Refusal> {
        self.must_be_wanted()?;
        self.must_not_be_pooled()?;
        match self.sandbox.lease {
            Lease::Starting { .. } | Lease::Live(_) => {}
            Lease::Free { .. }
            | Lease::LaunchWaiting { .. }
            | Lease::Stopping { .. }
            | Lease::StopWaiting { .. }
            | Lease::Quarantined { .. } => {
                return Err(Refusal::NoInstance);
            }
        }
        self.record(Fact::RestartRequested { cause });
        self.sandbox.launches = 0;
        self.sandbox.start_by = self.now.after_ms(self.policy.start_ms);
        self.end_running_executions(&Outcome::ended_for(cause));
        if self.holds(Guard::LaunchWaitsForAbsence) {
            self.begin_stop(false);
        } else {
            self.launch();
        }
        Ok(())
    }

    fn keep_alive(&mut self) {
        let Some(until) = self.policy.idle_ms.map(|ms| self.now.after_ms(ms)) else {
            return;
        };
        if let Some(live) = self.live()
            && live.idle_by.is_some()
        {
            live.idle_by = Some(until);
            self.record(Fact::KeptAlive { until });
        }
    }

    fn attest(&mut self, by: String, reason: String) -> Result<(), Refusal> {
        let Lease::Quarantined { generation, .. } = self.sandbox.lease else {
            return Err(Refusal::NotQuarantined);
        };
        let attestation = Attestation { by, reason, at: self.now };
        self.record(Fact::Attested { attestation: attestation.clone() });
        self.free(self.attested_receipt(attestation), generation);
        Ok(())
    }

    fn lease_stray(&mut self, generation: Generation) -> Result<(), Refusal> {
        let last = match self.sandbox.lease {
            Lease::Free { last } => {
                self.sandbox.strays += 1;
                last
            }
            // The sandbox still counts as present, so this is not a stray in the totals. The next launch waits for the
            // end of this instance too.
            Lease::LaunchWaiting { last, .. } => last,
            Lease::Starting { .. }
            | Lease::Live(_)
            | Lease::Stopping { .. }
            | Lease::StopWaiting { .. }
            | Lease::Quarantined { .. } => return Err(Refusal::Leased),
        };
        self.sandbox.lease = Lease::Free { last: last.max(generation) };
        self.record(Fact::StrayFound { generation });
        self.stop_attempt(1, false);
        Ok(())
    }
}
