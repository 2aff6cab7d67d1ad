//! One turn of the lifecycle: a sandbox goes in with a moment and a node, and comes out changed, with the
//! effects that are newly due and the records of what happened.

use crate::{
    Cause, Effect, Execution, Fact, Fence, Generation, Guard, Lease, Life, NodeId, PendingEffect, Policy,
    Record, Sandbox, SandboxId, StopFailure, Timestamp,
};

/// Who decides, when, and under which rules.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    pub now: Timestamp,
    pub node: NodeId,
    pub policy: &'a Policy,
}

/// What one turn came to. All of it is committed together, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    pub sandbox: Sandbox,
    /// Executions that ended in this turn. They are no longer in the sandbox.
    pub finished: Vec<Execution>,
    pub records: Vec<Record>,
    /// What is newly to be done, once this is committed.
    pub effects: Vec<Effect>,
}

impl Transition {
    /// This turn and the next one as one, to be committed together.
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

/// A sandbox that is wanted, with its lease taken and its first launch due.
#[must_use]
pub fn create(id: SandboxId, ctx: Context<'_>) -> Transition {
    let mut turn = Turn::begin(&unborn(id, Life::Wanted, Generation(0), ctx), ctx);
    turn.record(Fact::Created);
    turn.launch();
    turn.finish()
}

/// A body was found that no record speaks of: it is leased, to be stopped.
#[must_use]
pub fn lease_orphan(id: SandboxId, generation: Generation, ctx: Context<'_>) -> Transition {
    let life = Life::Ending { cause: Cause::Orphan, asked_at: ctx.now };
    let mut turn = Turn::begin(&found(id, life, generation, ctx), ctx);
    turn.record(Fact::StrayFound { generation });
    turn.begin_stop(false);
    turn.finish()
}

/// A stored row could not be read. What it owned may still be there, so it is kept and looked at.
#[must_use]
pub fn quarantine_unreadable(
    id: SandboxId,
    generation: Generation,
    why: String,
    ctx: Context<'_>,
) -> Transition {
    let life = Life::Ending { cause: Cause::ProviderError, asked_at: ctx.now };
    let mut turn = Turn::begin(&found(id, life, generation, ctx), ctx);
    if turn.holds(Guard::UnreadableIsQuarantined) {
        turn.quarantine(ctx.policy.stop_attempts, ctx.now, StopFailure::UnreadableRow { why });
    }
    turn.finish()
}

pub(crate) fn unborn(id: SandboxId, life: Life, last: Generation, ctx: Context<'_>) -> Sandbox {
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
        last_ticket: Fence(0),
        grace_ms: ctx.policy.grace_ms,
        executions: Vec::new(),
    }
}

/// A sandbox whose earlier row is gone or cannot be read. Answers to what that row had asked may still come, so
/// its tickets start above all of those: nothing asks more than one question a millisecond all its life.
fn found(id: SandboxId, life: Life, last: Generation, ctx: Context<'_>) -> Sandbox {
    Sandbox { last_ticket: Fence(u64::try_from(ctx.now.0).unwrap_or(0)), ..unborn(id, life, last, ctx) }
}

pub(crate) struct Turn<'a> {
    pub(crate) sandbox: Sandbox,
    pub(crate) now: Timestamp,
    pub(crate) policy: &'a Policy,
    node: NodeId,
    asked_before: Fence,
    pub(crate) finished: Vec<Execution>,
    records: Vec<Record>,
}

impl<'a> Turn<'a> {
    pub(crate) fn begin(sandbox: &Sandbox, ctx: Context<'a>) -> Self {
        Self {
            sandbox: sandbox.clone(),
            now: ctx.now,
            policy: ctx.policy,
            node: ctx.node,
            asked_before: sandbox.last_ticket,
            finished: Vec::new(),
            records: Vec::new(),
        }
    }

    pub(crate) fn finish(mut self) -> Transition {
        self.tend_executions();
        let effects = self.sandbox.effects();
        let new = effects.into_iter().filter(|effect| effect.duty.ticket > self.asked_before).collect();
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

    /// New work for this node, to be answered by then.
    pub(crate) fn duty_until(&mut self, deadline: Timestamp) -> PendingEffect {
        self.sandbox.last_ticket = Fence(self.sandbox.last_ticket.0 + 1);
        PendingEffect { ticket: self.sandbox.last_ticket, by: self.node, asked_at: self.now, deadline }
    }

    pub(crate) fn duty_for(&mut self, ms: u64) -> PendingEffect {
        self.duty_until(self.now.after_ms(ms))
    }
}
