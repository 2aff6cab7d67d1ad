//! Wishes of users, operators and engines. A wish can be refused, with the reason; asking again is no error.

use crate::turn::Turn;
use crate::{
    Attestation, Cause, Context, ExecutionId, ExecutionKind, ExecutionLimits, Fact, Generation, Guard, Lease,
    Life, NodeId, Outcome, Sandbox, Shape, Transition,
};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Request {
    /// Run a command. `may_queue`: wait for a place if all are taken.
    Execute { id: ExecutionId, kind: ExecutionKind, limits: ExecutionLimits, may_queue: bool },
    /// End one execution.
    Cancel { id: ExecutionId, cause: Cause },
    /// End the sandbox. Legal in every state.
    Stop { cause: Cause, forced: bool },
    /// End the sandbox and forget its record, once its body is proven gone.
    Forget,
    /// A new body in place of the one that is there.
    Restart { cause: Cause },
    /// Count idleness anew.
    KeepAlive,
    /// Make a body that waits in the pool the sandbox of whoever asks, under the policy of that wish.
    Claim { shape: Box<Shape> },
    /// End a body that waits in the pool. One that was given out is not touched.
    GiveUp { cause: Cause },
    /// An operator's word that a quarantined body is gone.
    Attest { by: String, reason: String },
    /// Take over what a dead node owned or was doing here.
    Adopt { dead: NodeId, rebooted: bool },
    /// A body of this generation was found although there is none by the lease.
    LeaseStray { generation: Generation },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    #[error("the sandbox is being ended ({cause:?})")]
    Ending { cause: Cause },
    #[error("the sandbox has ended ({cause:?})")]
    Ended { cause: Cause },
    #[error("{running} executions run or wait, and there are {places} places")]
    Busy { running: u32, places: u32 },
    #[error("the sandbox has no such execution")]
    NoSuchExecution,
    #[error("only what is quarantined can be attested to be gone")]
    NotQuarantined,
    #[error("the sandbox has no body to replace")]
    NoBody,
    #[error("a body is leased already")]
    Leased,
    #[error("the body waits in the pool and is nobody's sandbox yet")]
    Pooled,
    #[error("the sandbox does not wait in the pool")]
    NotPooled,
    #[error("the body that waits in the pool is made for other limits or another image")]
    OtherShape,
    #[error("the body that waits in the pool has no fresh proof that it works")]
    NotProven,
    #[error("the body that waits in the pool ends too soon")]
    NearItsEnd,
    #[error("a sandbox that ends with its owner has a body of its own")]
    EndsWithOwner,
}

/// Takes in a wish.
pub fn request(sandbox: &Sandbox, wish: Request, ctx: Context<'_>) -> Result<Transition, Refusal> {
    let mut turn = Turn::begin(sandbox, ctx);
    turn.grant(wish)?;
    Ok(turn.finish())
}

impl Turn<'_> {
    fn grant(&mut self, wish: Request) -> Result<(), Refusal> {
        match wish {
            Request::Execute { id, kind, limits, may_queue } => {
                self.must_be_wanted()?;
                self.must_not_wait_in_pool()?;
                self.ask_execution(id, kind, limits, may_queue)?;
            }
            Request::Cancel { id, cause } => self.cancel(id, cause)?,
            Request::Stop { cause, forced } => self.stop(cause, forced),
            Request::Forget => self.forget(),
            Request::Restart { cause } => self.restart(cause)?,
            Request::KeepAlive => {
                self.must_be_wanted()?;
                self.keep_alive();
            }
            Request::Claim { shape } => self.claim(&shape)?,
            Request::GiveUp { cause } => self.give_up(cause)?,
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

    fn stop(&mut self, cause: Cause, forced: bool) {
        self.end(cause, forced);
        // Somebody waits: one look out of turn.
        if matches!(self.sandbox.lease, Lease::Quarantined { look: None, .. }) {
            self.look_in_quarantine();
        }
    }

    fn forget(&mut self) {
        if !self.sandbox.forget {
            self.sandbox.forget = true;
            self.record(Fact::ForgetAsked);
        }
        self.stop(Cause::StoppedByUser, false);
        if !self.holds(Guard::ForgetWaitsForAbsence) {
            let (generation, receipt) = (self.sandbox.generation(), self.receipt(vec![]));
            self.free(receipt, generation);
        }
    }

    fn restart(&mut self, cause: Cause) -> Result<(), Refusal> {
        self.must_be_wanted()?;
        self.must_not_wait_in_pool()?;
        match self.sandbox.lease {
            Lease::Starting { .. } | Lease::Live(_) => {}
            Lease::Free { .. }
            | Lease::LaunchWaiting { .. }
            | Lease::Stopping { .. }
            | Lease::StopWaiting { .. }
            | Lease::Quarantined { .. } => {
                return Err(Refusal::NoBody);
            }
        }
        self.record(Fact::RestartAsked { cause });
        self.sandbox.launches = 0;
        self.sandbox.start_by = self.now.after_ms(self.policy.start_ms);
        self.end_what_runs(&Outcome::ended_for(cause));
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
            // It is counted already. The next try waits for the end of this one too.
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
