//! Transitions: from a sandbox, a time and a node to the changed sandbox, its new effects and its history records.

use crate::{
    Cause, Effect, Execution, Fact, Fence, Generation, Guard, Lease, Life, NodeId, PendingEffect, Policy,
    Record, Sandbox, SandboxId, StopFailure, Timestamp,
};

/// The deciding node, the time and the policy.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    pub now: Timestamp,
    pub node: NodeId,
    pub policy: &'a Policy,
}

/// The result of a request or event. The engine commits all of it in one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    pub sandbox: Sandbox,
    /// Executions that ended in this transition. They are no longer part of the sandbox.
    pub finished: Vec<Execution>,
    pub records: Vec<Record>,
    /// Effects to start after the commit.
    pub effects: Vec<Effect>,
}

impl Transition {
    /// Combines this transition with the next one, to be committed together.
    #[must_use]
    pub fn then(self, next: Self) -> Self {
        let still_due = next.sandbox.effects();
        let mut both = Self { sandbox: next.sandbox, ..self };
        both.effects.retain(|effect| still_due.contains(effect));
        both.effects.extend(next.effects);
        both.finished.extend(next.finished);
        both.records.extend(next.records);
        both
    }
}

/// A new sandbox, with its lease taken and its first launch pending.
#[must_use]
pub fn create(id: SandboxId, ctx: Context<'_>) -> Transition {
    let mut builder = TransitionBuilder::begin(&new_sandbox(id, Life::Wanted, Generation(0), ctx), ctx);
    builder.record(Fact::Created);
    builder.launch();
    builder.finish()
}

/// Leases an instance that was found without a row, so that it is stopped.
#[must_use]
pub fn lease_orphan(id: SandboxId, generation: Generation, ctx: Context<'_>) -> Transition {
    let life = Life::Ending { cause: Cause::Orphan, requested_at: ctx.now };
    let mut builder = TransitionBuilder::begin(&sandbox_without_row(id, life, generation, ctx), ctx);
    builder.record(Fact::StrayFound { generation });
    builder.begin_stop(false);
    builder.finish()
}

/// Quarantines a sandbox whose row cannot be read. Its instance may still exist, so the sandbox is kept and observed.
#[must_use]
pub fn quarantine_unreadable(
    id: SandboxId,
    generation: Generation,
    why: String,
    ctx: Context<'_>,
) -> Transition {
    let life = Life::Ending { cause: Cause::ProviderError, requested_at: ctx.now };
    let mut builder = TransitionBuilder::begin(&sandbox_without_row(id, life, generation, ctx), ctx);
    if builder.holds(Guard::UnreadableIsQuarantined) {
        builder.quarantine(ctx.policy.stop_attempts, ctx.now, StopFailure::UnreadableRow { why });
    }
    builder.finish()
}

pub(crate) fn new_sandbox(id: SandboxId, life: Life, last: Generation, ctx: Context<'_>) -> Sandbox {
    Sandbox {
        id,
        owner: ctx.node,
        life,
        lease: Lease::Free { last },
        created_at: ctx.now,
        start_by: ctx.now.after_ms(ctx.policy.start_ms),
        expires_at: ctx.now.after_ms(ctx.policy.max_life_ms),
        pooled: None,
        launches: 0,
        strays: 0,
        timeouts: 0,
        rebooted: false,
        forget: false,
        end_reason: None,
        last_fence: Fence(0),
        grace_ms: ctx.policy.grace_ms,
        executions: Vec::new(),
    }
}

/// A sandbox whose earlier row is lost or unreadable. Results of that row's effects may still arrive, so its fences
/// start at the current time in milliseconds: no sandbox issues more than one effect per millisecond over its life.
fn sandbox_without_row(id: SandboxId, life: Life, last: Generation, ctx: Context<'_>) -> Sandbox {
    Sandbox { last_fence: Fence(u64::try_from(ctx.now.0).unwrap_or(0)), ..new_sandbox(id, life, last, ctx) }
}

pub(crate) struct TransitionBuilder<'a> {
    pub(crate) sandbox: Sandbox,
    pub(crate) now: Timestamp,
    pub(crate) policy: &'a Policy,
    node: NodeId,
    fence_before: Fence,
    pub(crate) finished: Vec<Execution>,
    records: Vec<Record>,
}

impl<'a> TransitionBuilder<'a> {
    pub(crate) fn begin(sandbox: &Sandbox, ctx: Context<'a>) -> Self {
        Self {
            sandbox: sandbox.clone(),
            now: ctx.now,
            policy: ctx.policy,
            node: ctx.node,
            fence_before: sandbox.last_fence,
            finished: Vec::new(),
            records: Vec::new(),
        }
    }

    pub(crate) fn finish(mut self) -> Transition {
        self.advance_executions();
        let effects = self.sandbox.effects();
        let new = effects.into_iter().filter(|effect| effect.pending.fence > self.fence_before).collect();
        Transition { sandbox: self.sandbox, finished: self.finished, records: self.records, effects: new }
    }

    pub(crate) fn holds(&self, guard: Guard) -> bool {
        self.policy.guards.hold(guard)
    }

    pub(crate) fn node(&self) -> NodeId {
        self.node
    }

    pub(crate) fn record(&mut self, fact: Fact) {
        self.records.push(Record { at: self.now, by: self.node, fact });
    }

    /// Issues a new effect to this node, with this deadline.
    pub(crate) fn begin_effect_until(&mut self, deadline: Timestamp) -> PendingEffect {
        self.sandbox.last_fence = Fence(self.sandbox.last_fence.0 + 1);
        PendingEffect { fence: self.sandbox.last_fence, node: self.node, requested_at: self.now, deadline }
    }

    pub(crate) fn begin_effect_for(&mut self, ms: u64) -> PendingEffect {
        self.begin_effect_until(self.now.after_ms(ms))
    }
}
