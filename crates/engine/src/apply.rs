//! The one place where state changes: load, decide, commit, and only then act.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pinfold_lifecycle::{
    AdmissionLimits, Context, Effect, Event, Policy, Refusal, Request, SandboxId, Timestamp, Transition,
    quarantine_unreadable, request, step,
};
use pinfold_store::{
    Change, CommitError, CreateError, Created, NewExecution, NewSandbox, Row, StoreError, Stored, Unreadable,
    Version,
};

use crate::WaitError;
use crate::engine::Inner;
use crate::questions::Answer;
use crate::remark::{Remark, remark};

#[derive(Debug, Clone)]
pub(crate) enum Input {
    Ask(Request),
    Fact(Event),
    /// A fact of that moment, and the answer to the question that it raises, if it came at once.
    Raised {
        fact: Event,
        at: Timestamp,
        answer: Option<Answer>,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("there is no such sandbox")]
    Missing,
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("the sandbox changes too fast to keep up; try again")]
    Contended,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Wait(#[from] WaitError),
}

/// A conflict means that somebody else got on, so this many in a row are not bad luck any more.
const CONFLICTS: usize = 100;

impl Inner {
    /// Feeds a wish or a fact to the lifecycle and makes the outcome durable, then sets about what follows.
    pub(crate) async fn apply(
        self: Arc<Self>,
        id: SandboxId,
        input: Input,
        commands: Vec<NewExecution>,
    ) -> Result<(), ApplyError> {
        let known = self.known.get(id);
        self.apply_to(known, id, input, commands).await
    }

    /// The same, with the row as it was a moment ago, if that is known.
    pub(crate) async fn apply_to(
        self: Arc<Self>,
        known: Option<Stored>,
        id: SandboxId,
        input: Input,
        commands: Vec<NewExecution>,
    ) -> Result<(), ApplyError> {
        if let Some(known) = known {
            // That nothing is to be done, or nothing can be, is for a row to say that was read.
            if let Ok(Some(transition)) = self.decide(&known, input.clone())
                && self.clone().commit(transition, &known, commands.clone()).await?
            {
                return Ok(());
            }
        }
        for _ in 0..CONFLICTS {
            match self.store.load(id).await? {
                None => return Err(ApplyError::Missing),
                Some(Row::Unreadable(row)) => self.clone().quarantine(row).await?,
                Some(Row::Readable(stored)) => {
                    let Some(transition) = self.decide(&stored, input.clone())? else {
                        return Ok(());
                    };
                    if self.clone().commit(transition, &stored, commands.clone()).await? {
                        return Ok(());
                    }
                }
            }
        }
        Err(ApplyError::Contended)
    }

    /// None: it changes nothing.
    pub(crate) fn decide(&self, stored: &Stored, input: Input) -> Result<Option<Transition>, Refusal> {
        let transition = self.turn(stored, input)?;
        let changes = transition.sandbox != stored.sandbox || !transition.records.is_empty();
        Ok(changes.then_some(transition))
    }

    fn turn(&self, stored: &Stored, input: Input) -> Result<Transition, Refusal> {
        let ctx = self.context(&stored.policy);
        match input {
            Input::Ask(wish) => request(&stored.sandbox, wish, ctx),
            Input::Fact(event) => Ok(step(&stored.sandbox, event, ctx)),
            Input::Raised { fact, at, answer } => {
                let then = Context { now: at.min(ctx.now), ..ctx };
                let raised = step(&stored.sandbox, fact, then);
                // None: it did not come yet, or nobody wants to know any more.
                let answer = answer.and_then(|answer| answer.event_for(&raised.effects));
                Ok(match answer {
                    Some(event) => {
                        let answered = step(&raised.sandbox, event, ctx);
                        raised.then(answered)
                    }
                    None => raised,
                })
            }
        }
    }

    pub(crate) fn context<'a>(&self, policy: &'a Policy) -> Context<'a> {
        Context { now: self.clock.now(), node: self.node, policy }
    }

    /// Whether it is done. If not, somebody was quicker, or what became of it must be read again.
    async fn commit(
        self: Arc<Self>,
        transition: Transition,
        before: &Stored,
        commands: Vec<NewExecution>,
    ) -> Result<bool, StoreError> {
        let change =
            Change { transition: transition.clone(), version: before.version, commands: commands.clone() };
        let written = match self.store.commit(change).await {
            Ok(version) => {
                let (spec, policy) = (before.spec.clone(), before.policy.clone());
                let stored = Stored { sandbox: transition.sandbox.clone(), spec, policy, version };
                self.known.wrote(stored, commands);
                true
            }
            Err(CommitError::Conflict { .. } | CommitError::Missing) => false,
            Err(CommitError::Store(StoreError::Unclear { .. })) => {
                self.was_written(&transition, before.version).await?
            }
            Err(CommitError::Store(error)) => return Err(error),
        };
        if written {
            self.follow(transition);
        }
        Ok(written)
    }

    /// Reads again what became of a commit with an unclear outcome. Asking anew would not do: a wish that was
    /// granted is refused the second time. Where somebody has built on it since, this cannot tell, and the
    /// sweep finds the work it asked of this node.
    async fn was_written(&self, transition: &Transition, before: Version) -> Result<bool, StoreError> {
        match self.store.load(transition.sandbox.id).await? {
            Some(Row::Readable(stored)) => {
                Ok(stored.version != before && stored.sandbox == transition.sandbox)
            }
            Some(Row::Unreadable(_)) => Ok(false),
            None => Ok(transition.sandbox.is_to_be_forgotten()),
        }
    }

    async fn quarantine(self: Arc<Self>, row: Unreadable) -> Result<(), StoreError> {
        let (spec, policy) = (Arc::default(), Arc::new(Policy::default()));
        let transition = quarantine_unreadable(row.id, row.generation, row.why, self.context(&policy));
        let before = Stored { sandbox: transition.sandbox.clone(), spec, policy, version: row.version };
        self.clone().commit(transition, &before, Vec::new()).await?;
        // What its spec says could be read may differ from what was put in its place here.
        self.known.forget(row.id);
        Ok(())
    }

    /// Writes a new sandbox, and begins its launch or its stop.
    pub(crate) async fn insert(
        self: &Arc<Self>,
        new: NewSandbox,
        limits: AdmissionLimits,
    ) -> Result<Created, CreateError> {
        let (transition, spec, policy) = (new.transition.clone(), new.spec.clone(), new.policy.clone());
        let commands = new.commands.clone();
        let created = match self.store.create(new, limits).await {
            Ok(Created::New(version)) => {
                let stored = Stored { sandbox: transition.sandbox.clone(), spec, policy, version };
                self.known.wrote(stored, commands);
                Created::New(version)
            }
            // What is read now may be what somebody else has made of it since.
            Err(CreateError::Store(unclear @ StoreError::Unclear { .. })) => {
                match self.store.load(transition.sandbox.id).await? {
                    Some(Row::Readable(stored)) => Created::New(stored.version),
                    Some(Row::Unreadable(_)) | None => return Err(unclear.into()),
                }
            }
            other => other?,
        };
        if let Created::New(_) = created {
            self.clone().follow(transition);
        }
        Ok(created)
    }

    /// What a commit brings with it. It is durable now, so it may be acted on.
    pub(crate) fn follow(self: Arc<Self>, transition: Transition) {
        let sandbox = &transition.sandbox;
        if let Some(onlooker) = self.onlooker.get() {
            onlooker.committed(sandbox, &transition.records);
        }
        for record in &transition.records {
            let (sandbox_id, node, fact) = (sandbox.id, self.node, &record.fact);
            match remark(sandbox_id, fact) {
                Some(Remark::Warning(said)) => tracing::warn!(%sandbox_id, %node, ?fact, "{said}"),
                Some(Remark::News(said)) => tracing::info!(%sandbox_id, %node, ?fact, "{said}"),
                None => tracing::info!(%sandbox_id, %node, ?fact),
            }
        }
        let wanted = sandbox.effects();
        self.errands.drop_obsolete(sandbox.id, sandbox.last_ticket, &wanted);
        self.questions.drop_obsolete(sandbox.id, &wanted);
        for effect in transition.effects {
            self.set_about(effect);
        }
        if let Some(deadline) = transition.sandbox.next_deadline()
            && deadline.0 < self.armed_for.load(Ordering::Relaxed)
        {
            self.timer.notify_one();
        }
        self.waiters.ring(transition.sandbox.id);
    }

    /// Does the work in a task of its own and feeds the answer back.
    pub(crate) fn set_about(self: &Arc<Self>, effect: Effect) {
        let errand = (effect.sandbox, effect.duty.ticket);
        self.errands.spawn(errand, self.clone().run_errand(effect));
    }

    /// The same for work that was read. It may have been done since, and a launch that is done again after the proof
    /// that all is gone leaves a body that no record speaks of. So it is looked at once more when nobody else can
    /// begin it any more.
    pub(crate) fn resume(self: &Arc<Self>, effect: Effect) {
        let errand = (effect.sandbox, effect.duty.ticket);
        let inner = self.clone();
        self.errands.spawn(errand, async move {
            if inner.is_called_for(&effect).await {
                inner.run_errand(effect).await;
            } else {
                inner.errands.done(errand);
            }
        });
    }

    async fn is_called_for(&self, effect: &Effect) -> bool {
        match self.store.load(effect.sandbox).await {
            Ok(Some(Row::Readable(stored))) => stored.sandbox.effects().contains(effect),
            // Whoever can read it later finds it again.
            Ok(Some(Row::Unreadable(_)) | None) | Err(_) => false,
        }
    }

    async fn run_errand(self: Arc<Self>, effect: Effect) {
        let errand = (effect.sandbox, effect.duty.ticket);
        if let Some(input) = self.clone().perform(&effect).await
            && self.errands.may_answer(errand)
        {
            self.clone().deliver(effect.sandbox, input).await;
        }
        self.errands.done(errand);
    }

    /// Feeds a fact in. A store that fails for now is tried again: the fact stays true.
    pub(crate) async fn deliver(self: Arc<Self>, id: SandboxId, input: Input) {
        let mut wait_ms = 50;
        loop {
            match self.clone().apply(id, input.clone(), Vec::new()).await {
                Ok(()) => return,
                Err(ApplyError::Missing) => return self.questions.drop_obsolete(id, &[]),
                Err(error) => {
                    tracing::warn!(sandbox_id = %id, error = &error as &dyn std::error::Error, "an answer waits");
                }
            }
            self.clock.sleep_until(self.clock.now().after_ms(wait_ms)).await;
            wait_ms = (wait_ms * 2).min(2_000);
        }
    }
}
