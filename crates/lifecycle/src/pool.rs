//! The warm pool. An instance is prepared before any user needs it, is claimed once by a request of the same shape,
//! and from then on is that user's sandbox.

use serde::{Deserialize, Serialize};

use crate::transition::{TransitionBuilder, new_sandbox};
use crate::{
    Cause, CheckKind, Context, Fact, Fence, Generation, Guard, Health, Lease, Life, Limits, Live, Outcome,
    PendingEffect, Refusal, SandboxId, Spec, Transition, Verdict,
};

/// Everything that an instance is created from. Every field of a spec that a provider reads at launch must be here,
/// because it cannot be changed afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
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
    /// The spec with which a pooled instance is launched.
    #[must_use]
    pub fn spec(&self) -> Spec {
        Spec { image: self.image.clone(), limits: self.limits, ..Spec::default() }
    }
}

/// A claimed instance is being given its new deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Extension {
    pub pending: PendingEffect,
    /// The new deadline is earlier than the one the instance knows, so no execution starts before the instance has
    /// accepted it.
    pub blocks_executions: bool,
}

/// Creates a pooled instance. Its lease is taken and its first launch is pending, as for any sandbox.
#[must_use]
pub fn create_pooled(id: SandboxId, shape: Shape, ctx: Context<'_>) -> Transition {
    let mut sandbox = new_sandbox(id, Life::Wanted, Generation(0), ctx);
    sandbox.pooled = Some(Box::new(shape));
    let mut builder = TransitionBuilder::begin(&sandbox, ctx);
    builder.record(Fact::Pooled);
    builder.launch();
    builder.finish()
}

impl TransitionBuilder<'_> {
    /// Claims the instance under the claimant's policy. The sandbox's lifetime begins now.
    pub(crate) fn claim(&mut self, shape: &Shape) -> Result<(), Refusal> {
        self.must_be_wanted()?;
        self.must_match_pool_shape(shape)?;
        // The keeper of a pooled instance does not watch the new owner, so it would not end together with it.
        if self.policy.ends_with_owner {
            return Err(Refusal::EndsWithOwner);
        }
        if self.sandbox.expires_at <= self.now.after_ms(self.policy.start_ms) {
            return Err(Refusal::ExpiresTooSoon);
        }
        match &self.sandbox.lease {
            Lease::Live(live) if self.has_fresh_probe(live) => {}
            Lease::Free { .. }
            | Lease::LaunchWaiting { .. }
            | Lease::Starting { .. }
            | Lease::Live(_)
            | Lease::Stopping { .. }
            | Lease::StopWaiting { .. }
            | Lease::Quarantined { .. } => return Err(Refusal::ProbeStale),
        }
        self.hand_over();
        Ok(())
    }

    fn must_match_pool_shape(&self, shape: &Shape) -> Result<(), Refusal> {
        match &self.sandbox.pooled {
            Some(own) if **own == *shape => Ok(()),
            Some(_) => Err(Refusal::OtherShape),
            None if !self.holds(Guard::ClaimedOnce) => Ok(()),
            None => Err(Refusal::NotPooled),
        }
    }

    /// Whether the last passed probe is fresh, and no later check contradicts it.
    fn has_fresh_probe(&self, live: &Live) -> bool {
        let Health { verdict, verified_at, inconclusive_since: doubt_since, .. } = &live.health;
        let fresh = self.now.ms_since(*verified_at) <= self.policy.evidence_ms;
        let in_doubt = doubt_since.is_some() || live.check.is_some_and(|check| check.kind != CheckKind::Ping);
        *verdict == Verdict::Healthy && !in_doubt && (fresh || !self.holds(Guard::ClaimNeedsFreshProbe))
    }

    fn hand_over(&mut self) {
        let (now, node) = (self.now, self.node());
        let sandbox = &mut self.sandbox;
        let ended_at = sandbox.expires_at;
        sandbox.pooled = None;
        sandbox.owner = node;
        sandbox.created_at = now;
        sandbox.start_by = now.after_ms(self.policy.start_ms);
        sandbox.expires_at = now.after_ms(self.policy.max_life_ms);
        sandbox.grace_ms = self.policy.grace_ms;
        // If this instance fails, the user still has all launches. With recovery, the claim counts as the first
        // attempt.
        sandbox.launches = u32::from(self.policy.recovery.is_some());
        let ends_sooner = sandbox.expires_at < ended_at;
        let holds_work = ends_sooner && self.holds(Guard::ShorterLifetimeBlocksExecutions);
        // Leaves half of the start time for launching another instance.
        let pending = self.begin_effect_for(self.policy.start_ms / 2);
        let accept_by = self.policy.accept_ms.map(|ms| now.after_ms(ms));
        let policy = self.policy;
        if let Some(live) = self.live() {
            live.extension = Some(Extension { pending, blocks_executions: holds_work });
            live.accept_by = accept_by;
            live.health.next_check = policy.next_check(live.health.verified_at);
        }
        self.record(Fact::Created);
    }

    /// Ends a pooled instance that was never claimed.
    pub(crate) fn discard_pooled(&mut self, cause: Cause) -> Result<(), Refusal> {
        if self.sandbox.pooled.is_none() && self.holds(Guard::OnlyPooledAreDiscarded) {
            return Err(Refusal::NotPooled);
        }
        self.end(cause, false);
        Ok(())
    }

    pub(crate) fn must_not_be_pooled(&self) -> Result<(), Refusal> {
        if self.sandbox.pooled.is_some() { Err(Refusal::Pooled) } else { Ok(()) }
    }

    pub(crate) fn extending(&self, fence: Fence) -> bool {
        let Lease::Live(live) = &self.sandbox.lease else {
            return false;
        };
        live.extension.is_some_and(|extension| self.awaits(&extension.pending, fence))
    }

    pub(crate) fn extended(&mut self) {
        let until = self.sandbox.expires_at;
        if let Some(live) = self.live() {
            live.extension = None;
        }
        self.record(Fact::DeadlineUpdated { until });
    }

    /// The claimed instance cannot be used. It is replaced as after a failed launch.
    pub(crate) fn extension_failed(&mut self, why: String) {
        if !self.may_retry(Cause::StartFailed) {
            let why = "the new deadline could not be set on its instance";
            self.end_running_executions(&Outcome::failed(Cause::ProviderError, why));
        }
        self.start_failed(Cause::StartFailed, why);
    }

    pub(crate) fn extension_overdue(&mut self) {
        let now = self.now;
        let overdue = self
            .live()
            .and_then(|live| live.extension)
            .is_some_and(|extension| extension.pending.deadline <= now);
        if overdue {
            self.extension_failed("the instance did not confirm its new deadline in time".into());
        }
    }
}
