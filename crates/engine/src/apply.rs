//! The only place where state changes: load the row, decide with the lifecycle, commit, and only then act.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pinfold_backoff::Backoff;
use pinfold_lifecycle::{
    AdmissionLimits, Context, Effect, Event, Policy, Refusal, Request, SandboxId, Timestamp, Transition,
    quarantine_unreadable, request, step,
};
use pinfold_store::{
    Change, CommitError, CreateError, Created, NewExecution, NewSandbox, Row, StoreError, StoredSandbox,
    UnreadableRow, Version,
};

use crate::WaitError;
use crate::engine::Inner;
use crate::log_message::log_message;
use crate::prefetch::CallResult;

#[derive(Debug, Clone)]
pub(crate) enum Input {
    Request(Request),
    Fact(Event),
    /// An event at the given time, with the result of the prefetched call if it arrived in time.
    Prefetched {
        fact: Event,
        at: Timestamp,
        result: Option<CallResult>,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("no such sandbox")]
    Missing,
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("too many concurrent changes to this sandbox; try again")]
    Contended,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Wait(#[from] WaitError),
}

/// Commits that may conflict in a row before `apply` gives up. Each conflict means another writer succeeded.
const MAX_CONFLICTS: usize = 100;

impl Inner {
    /// Applies a request or an event to the lifecycle, commits the result, then starts the effects.
    pub(crate) async fn apply(
        self: Arc<Self>,
        id: SandboxId,
        input: Input,
        commands: Vec<NewExecution>,
    ) -> Result<(), ApplyError> {
        let cached = self.row_cache.get(id);
        self.apply_to(cached, id, input, commands).await
    }

    /// Like `apply`, starting from a cached row if there is one.
    pub(crate) async fn apply_to(
        self: Arc<Self>,
        cached: Option<StoredSandbox>,
        id: SandboxId,
        input: Input,
        commands: Vec<NewExecution>,
    ) -> Result<(), ApplyError> {
        if let Some(cached) = cached {
            // Only a row read from the store may decide that nothing is to be done or that a request is
            // refused.
            if let Ok(Some(transition)) = self.decide(&cached, input.clone())
                && self.clone().commit(transition, &cached, commands.clone()).await?
            {
                return Ok(());
            }
        }
        for _ in 0..MAX_CONFLICTS {
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

    /// None: the input changes nothing.
    pub(crate) fn decide(&self, stored: &StoredSandbox, input: Input) -> Result<Option<Transition>, Refusal> {
        let transition = self.transition(stored, input)?;
        let changes = transition.sandbox != stored.sandbox || !transition.records.is_empty();
        Ok(changes.then_some(transition))
    }

    fn transition(&self, stored: &StoredSandbox, input: Input) -> Result<Transition, Refusal> {
        let ctx = self.context(&stored.policy);
        match input {
            Input::Request(wanted) => request(&stored.sandbox, wanted, ctx),
            Input::Fact(event) => Ok(step(&stored.sandbox, event, ctx)),
            Input::Prefetched { fact, at, result } => {
                let then = Context { now: at.min(ctx.now), ..ctx };
                let first = step(&stored.sandbox, fact, then);
                // None: the result is not there yet, or no effect needs it any more.
                let result = result.and_then(|result| result.event_for(&first.effects));
                Ok(match result {
                    Some(event) => {
                        let answered = step(&first.sandbox, event, ctx);
                        first.then(answered)
                    }
                    None => first,
                })
            }
        }
    }

    pub(crate) fn context<'a>(&self, policy: &'a Policy) -> Context<'a> {
        Context { now: self.clock.now(), node: self.node, policy }
    }

    /// Commits a transition. False: another writer was first and the row must be read again.
    async fn commit(
        self: Arc<Self>,
        transition: Transition,
        before: &StoredSandbox,
        commands: Vec<NewExecution>,
    ) -> Result<bool, StoreError> {
        let change =
            Change { transition: transition.clone(), version: before.version, commands: commands.clone() };
        let written = match self.store.commit(change).await {
            Ok(version) => {
                let (spec, policy) = (before.spec.clone(), before.policy.clone());
                let stored = StoredSandbox { sandbox: transition.sandbox.clone(), spec, policy, version };
                self.row_cache.insert(stored, commands);
                true
            }
            Err(CommitError::Conflict { .. } | CommitError::Missing) => false,
            Err(CommitError::Store(StoreError::OutcomeUnknown { .. })) => {
                self.was_written(&transition, before.version).await?
            }
            Err(CommitError::Store(error)) => return Err(error),
        };
        if written {
            self.after_commit(transition);
        }
        Ok(written)
    }

    /// Reads the row again after a commit with unknown outcome. Requesting again would not do: a granted
    /// request is refused the second time. If another writer has built on the commit since, this answers false,
    /// and the heartbeat resumes the effects committed for this node.
    async fn was_written(&self, transition: &Transition, before: Version) -> Result<bool, StoreError> {
        match self.store.load(transition.sandbox.id).await? {
            Some(Row::Readable(stored)) => {
                Ok(stored.version != before && stored.sandbox == transition.sandbox)
            }
            Some(Row::Unreadable(_)) => Ok(false),
            None => Ok(transition.sandbox.is_to_be_forgotten()),
        }
    }

    async fn quarantine(self: Arc<Self>, row: UnreadableRow) -> Result<(), StoreError> {
        let (spec, policy) = (Arc::default(), Arc::new(Policy::default()));
        let transition = quarantine_unreadable(row.id, row.generation, row.why, self.context(&policy));
        let before =
            StoredSandbox { sandbox: transition.sandbox.clone(), spec, policy, version: row.version };
        self.clone().commit(transition, &before, Vec::new()).await?;
        // The stored spec may differ from the default that was put in its place here.
        self.row_cache.forget(row.id);
        Ok(())
    }

    /// Inserts a new sandbox and starts its first effects.
    pub(crate) async fn insert(
        self: &Arc<Self>,
        new: NewSandbox,
        limits: AdmissionLimits,
    ) -> Result<Created, CreateError> {
        let (transition, spec, policy) = (new.transition.clone(), new.spec.clone(), new.policy.clone());
        let commands = new.commands.clone();
        let created = match self.store.create(new, limits).await {
            Ok(Created::New(version)) => {
                let stored = StoredSandbox { sandbox: transition.sandbox.clone(), spec, policy, version };
                self.row_cache.insert(stored, commands);
                Created::New(version)
            }
            // The row read now may already include later changes of another process.
            Err(CreateError::Store(unknown @ StoreError::OutcomeUnknown { .. })) => {
                match self.store.load(transition.sandbox.id).await? {
                    Some(Row::Readable(stored)) => Created::New(stored.version),
                    Some(Row::Unreadable(_)) | None => return Err(unknown.into()),
                }
            }
            other => other?,
        };
        if let Created::New(_) = created {
            self.clone().after_commit(transition);
        }
        Ok(created)
    }

    /// Everything that follows a commit: log lines, obsolete tasks, new effects, timer, notifications. The
    /// commit is durable, so it may be acted on.
    pub(crate) fn after_commit(self: Arc<Self>, transition: Transition) {
        let sandbox = &transition.sandbox;
        if let Some(observer) = self.observer.get() {
            observer.committed(sandbox, &transition.records);
        }
        for record in &transition.records {
            log_message(sandbox.id, &record.fact).log(sandbox.id, self.node);
        }
        let wanted = sandbox.effects();
        self.effect_tasks.drop_obsolete(sandbox.id, sandbox.last_fence, &wanted);
        self.prefetches.drop_obsolete(sandbox.id, &wanted);
        for effect in transition.effects {
            self.spawn_effect(effect);
        }
        if let Some(deadline) = transition.sandbox.next_deadline()
            && deadline.0 < self.armed_for.load(Ordering::Relaxed)
        {
            self.timer.notify_one();
        }
        self.changes.notify(transition.sandbox.id);
    }

    /// Runs an effect in its own task, which applies the result.
    pub(crate) fn spawn_effect(self: &Arc<Self>, effect: Effect) {
        let key = (effect.sandbox, effect.pending.fence);
        self.effect_tasks.spawn(key, self.clone().run_effect(effect));
    }

    /// Like `spawn_effect`, for an effect read from the store. It may have completed since it was read, and a
    /// launch repeated after the proof of absence would leave an instance without a record. So the task reads
    /// the row once more after it has registered itself.
    pub(crate) fn resume(self: &Arc<Self>, effect: Effect) {
        let key = (effect.sandbox, effect.pending.fence);
        let inner = self.clone();
        self.effect_tasks.spawn(key, async move {
            if inner.is_still_pending(&effect).await {
                inner.run_effect(effect).await;
            } else {
                inner.effect_tasks.done(key);
            }
        });
    }

    async fn is_still_pending(&self, effect: &Effect) -> bool {
        match self.store.load(effect.sandbox).await {
            Ok(Some(Row::Readable(stored))) => stored.sandbox.effects().contains(effect),
            // A later heartbeat finds the effect again.
            Ok(Some(Row::Unreadable(_)) | None) | Err(_) => false,
        }
    }

    async fn run_effect(self: Arc<Self>, effect: Effect) {
        let key = (effect.sandbox, effect.pending.fence);
        if let Some(input) = self.clone().perform(&effect).await
            && self.effect_tasks.may_answer(key)
        {
            self.clone().apply_with_retry(effect.sandbox, input).await;
        }
        self.effect_tasks.done(key);
    }

    /// Applies an event, retrying while the store fails: the event stays true.
    pub(crate) async fn apply_with_retry(self: Arc<Self>, id: SandboxId, input: Input) {
        let mut backoff = Backoff::from_ms(50, 2_000);
        loop {
            match self.clone().apply(id, input.clone(), Vec::new()).await {
                Ok(()) => return,
                Err(ApplyError::Missing) => return self.prefetches.drop_obsolete(id, &[]),
                Err(error) => {
                    tracing::warn!(sandbox_id = %id, error = &error as &dyn std::error::Error, "commit of an effect's result failed, retrying");
                }
            }
            self.clock.sleep_until(self.clock.now().after_ms(backoff.next_pause_ms())).await;
        }
    }
}
