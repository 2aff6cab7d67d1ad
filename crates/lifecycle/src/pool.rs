//! Bodies that are prepared ahead of need. One waits in the pool as nobody's sandbox, is given out once to whoever
//! wants a body of its shape, and is that user's sandbox from then on.

use serde::{Deserialize, Serialize};

use crate::turn::{Turn, unborn};
use crate::{
    Cause, CheckKind, Context, Fact, Fence, Generation, Guard, Health, Lease, Life, Limits, Live, Outcome,
    PendingEffect, Refusal, SandboxId, Spec, Transition, Verdict,
};

/// All that a body is made from. Whatever a provider reads of a spec at launch belongs here, since it cannot be
/// changed afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Shape {
    pub image: Option<String>,
    pub limits: Limits,
}

impl Spec {
    #[must_use]
    pub fn shape(&self) -> Shape {
        Shape { image: self.image.clone(), limits: self.limits }
    }
}

impl Shape {
    /// The spec of a body that waits for its user.
    #[must_use]
    pub fn spec(&self) -> Spec {
        Spec { image: self.image.clone(), limits: self.limits, ..Spec::default() }
    }
}

/// A body that was given out is being told when its user's time ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Extension {
    pub duty: PendingEffect,
    /// Until it knows, it would outlive its user's time: nothing is started in it before.
    pub holds_work: bool,
}

/// A body for whoever comes first. Its lease is taken and its first launch is due, as for any other.
#[must_use]
pub fn create_pooled(id: SandboxId, shape: Shape, ctx: Context<'_>) -> Transition {
    let mut sandbox = unborn(id, Life::Wanted, Generation(0), ctx);
    sandbox.pooled = Some(Box::new(shape));
    let mut turn = Turn::begin(&sandbox, ctx);
    turn.record(Fact::Pooled);
    turn.launch();
    turn.finish()
}

impl Turn<'_> {
    /// Under the policy of whoever claims it. Its time begins now.
    pub(crate) fn claim(&mut self, shape: &Shape) -> Result<(), Refusal> {
        self.must_be_wanted()?;
        self.must_wait_in_pool_of(shape)?;
        // Its keeper does not know the new owner, so it would not end with it.
        if self.policy.ends_with_owner {
            return Err(Refusal::EndsWithOwner);
        }
        if self.sandbox.expires_at <= self.now.after_ms(self.policy.start_ms) {
            return Err(Refusal::NearItsEnd);
        }
        match &self.sandbox.lease {
            Lease::Live(live) if self.is_proven(live) => {}
            Lease::Free { .. }
            | Lease::LaunchWaiting { .. }
            | Lease::Starting { .. }
            | Lease::Live(_)
            | Lease::Stopping { .. }
            | Lease::StopWaiting { .. }
            | Lease::Quarantined { .. } => return Err(Refusal::NotProven),
        }
        self.give_out();
        Ok(())
    }

    fn must_wait_in_pool_of(&self, shape: &Shape) -> Result<(), Refusal> {
        match &self.sandbox.pooled {
            Some(own) if **own == *shape => Ok(()),
            Some(_) => Err(Refusal::OtherShape),
            None if !self.holds(Guard::GivenOutOnce) => Ok(()),
            None => Err(Refusal::NotPooled),
        }
    }

    /// Whether a probe that passed in this generation is fresh, and nothing speaks against it since.
    fn is_proven(&self, live: &Live) -> bool {
        let Health { verdict, verified_at, doubt_since, .. } = &live.health;
        let fresh = self.now.ms_since(*verified_at) <= self.policy.evidence_ms;
        let in_doubt = doubt_since.is_some() || live.check.is_some_and(|check| check.kind != CheckKind::Ping);
        *verdict == Verdict::Healthy && !in_doubt && (fresh || !self.holds(Guard::GivenOutProven))
    }

    fn give_out(&mut self) {
        let (now, node) = (self.now, self.node());
        let sandbox = &mut self.sandbox;
        let ended_at = sandbox.expires_at;
        sandbox.pooled = None;
        sandbox.owner = node;
        sandbox.created_at = now;
        sandbox.start_by = now.after_ms(self.policy.start_ms);
        sandbox.expires_at = now.after_ms(self.policy.max_life_ms);
        sandbox.grace_ms = self.policy.grace_ms;
        // Should this body come to nothing, the user has every launch still before him. Where tries are counted, this
        // is his first.
        sandbox.launches = u32::from(self.policy.recovery.is_some());
        let ends_sooner = sandbox.expires_at < ended_at;
        let holds_work = ends_sooner && self.holds(Guard::ShorterLifeWaits);
        // Half of the time is left for another body.
        let duty = self.duty_for(self.policy.start_ms / 2);
        let accept_by = self.policy.accept_ms.map(|ms| now.after_ms(ms));
        let policy = self.policy;
        if let Some(live) = self.live() {
            live.extension = Some(Extension { duty, holds_work });
            live.accept_by = accept_by;
            live.health.next_check = policy.next_check(live.health.verified_at);
        }
        self.record(Fact::Created);
    }

    /// A body that nobody was given is not needed any more.
    pub(crate) fn give_up(&mut self, cause: Cause) -> Result<(), Refusal> {
        if self.sandbox.pooled.is_none() && self.holds(Guard::OnlyTheWaitingAreGivenUp) {
            return Err(Refusal::NotPooled);
        }
        self.end(cause, false);
        Ok(())
    }

    pub(crate) fn must_not_wait_in_pool(&self) -> Result<(), Refusal> {
        if self.sandbox.pooled.is_some() { Err(Refusal::Pooled) } else { Ok(()) }
    }

    pub(crate) fn extending(&self, ticket: Fence) -> bool {
        let Lease::Live(live) = &self.sandbox.lease else {
            return false;
        };
        live.extension.is_some_and(|extension| self.awaits(&extension.duty, ticket))
    }

    pub(crate) fn extended(&mut self) {
        let until = self.sandbox.expires_at;
        if let Some(live) = self.live() {
            live.extension = None;
        }
        self.record(Fact::EndMoved { until });
    }

    /// The body is of no use to its user: as after a failed launch, another one is made.
    pub(crate) fn extension_failed(&mut self, why: String) {
        if !self.may_recover(Cause::StartFailed) {
            let why = "its body could not be given its time";
            self.end_what_runs(&Outcome::failed(Cause::ProviderError, why));
        }
        self.start_failed(Cause::StartFailed, why);
    }

    pub(crate) fn extension_overdue(&mut self) {
        let now = self.now;
        let overdue = self
            .live()
            .and_then(|live| live.extension)
            .is_some_and(|extension| extension.duty.deadline <= now);
        if overdue {
            self.extension_failed("the body did not answer when it was given its time".into());
        }
    }
}
