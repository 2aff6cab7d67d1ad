//! The engine as its callers see it: wishes go in, and answers say what is proven.

use std::sync::atomic::AtomicI64;
use std::sync::{Arc, OnceLock};

use pinfold_lifecycle::{
    AdmissionLimits, Cause, Command, ExecutionId, ExecutionKind, ExecutionLimits, Lease, Life, NodeId,
    Outcome, Policy, Receipt, Request, SandboxId, Spec, Timestamp,
};
use pinfold_provider::{AskBodyError, InstanceId, Provider, Usage};
use pinfold_store::{Filter, IdempotencyKey, NewExecution, Store, StoreError, Stored};
use tokio::sync::Notify;

use crate::apply::Input;
use crate::claim::{First, Provided, Wanted};
use crate::cleanup::Stand;
use crate::errands::Errands;
use crate::known::Known;
use crate::lanes::Lanes;
use crate::pool::Pool;
use crate::questions::Questions;
use crate::queue::Line;
use crate::room::Room;
use crate::waiting::{Listener, Waiters};
use crate::{
    AdmitError, ApplyError, Census, Clock, Config, Ids, Onlooker, QueueAsk, Reconcile, ReconcileError,
    ReconcileReport, WaitError, Waited,
};

/// What an engine works with. Everything it learns of the world comes through these.
#[derive(Clone)]
pub struct Parts {
    pub store: Arc<dyn Store>,
    pub provider: Arc<dyn Provider>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub census: Arc<dyn Census>,
}

/// One node. Dropping it stops its work at once, as a crash would; what it left is in the store.
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) node: NodeId,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) census: Arc<dyn Census>,
    pub(crate) config: Config,
    pub(crate) known: Known,
    pub(crate) errands: Errands,
    pub(crate) questions: Questions,
    pub(crate) lanes: Lanes,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) pool: Pool,
    pub(crate) room: Room,
    pub(crate) line: Line,
    pub(crate) onlooker: OnceLock<Arc<dyn Onlooker>>,
    pub(crate) stand: Stand,
    /// What the timer sleeps until, and how to wake it for something earlier.
    pub(crate) armed_for: AtomicI64,
    pub(crate) timer: Notify,
}

#[derive(Debug, thiserror::Error)]
#[error("could not make this process known to the others")]
pub struct BeginError(#[from] StoreError);

#[derive(Debug, Clone, Default)]
pub struct CreateAsk {
    pub spec: Spec,
    pub policy: Policy,
    pub key: Option<IdempotencyKey>,
    /// Where there is no room, wait for it. None: be refused.
    pub queue: Option<QueueAsk>,
}

/// A command for a sandbox that is asked for in the same breath.
#[derive(Debug, Clone)]
pub struct RunAsk {
    pub command: Command,
    pub kind: ExecutionKind,
    pub limits: ExecutionLimits,
}

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Create(#[from] AdmitError),
    #[error(transparent)]
    Execute(#[from] ApplyError),
}

impl From<CreateAsk> for Wanted {
    fn from(ask: CreateAsk) -> Self {
        Self {
            spec: Arc::new(ask.spec),
            policy: Arc::new(ask.policy),
            key: ask.key,
            queue: ask.queue,
            first: None,
        }
    }
}

/// What a stop has come to so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// Proven gone, or attested to be: the receipt tells.
    Gone { cause: Cause, receipt: Box<Receipt> },
    /// Under way; it goes on by itself.
    Pending,
}

/// What becomes of live sandboxes when their engine shuts down. Bodies in its pool, which nobody was given, end in
/// either case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnExit {
    /// The next engine takes them over.
    Keep,
    Stop,
}

impl Engine {
    /// Makes this node known and sets its loops going.
    pub async fn begin(parts: Parts, config: Config) -> Result<Self, BeginError> {
        let Parts { store, provider, clock, ids, census } = parts;
        let node = NodeId(ids.fresh(clock.now()));
        store.beat(census.me(node), clock.now()).await?;
        let inner = Arc::new(Inner {
            node,
            store,
            provider,
            clock,
            ids,
            census,
            known: Known::default(),
            errands: Errands::default(),
            questions: Questions::default(),
            lanes: Lanes::new(&config),
            waiters: Arc::default(),
            pool: Pool::default(),
            room: Room::default(),
            line: Line::default(),
            onlooker: OnceLock::new(),
            stand: Stand::default(),
            armed_for: AtomicI64::new(i64::MAX),
            timer: Notify::new(),
            config,
        });
        if let Err(error) = inner.adopt_what_a_restart_left().await {
            tracing::warn!(error = &error as &dyn std::error::Error, "what a restart left waits");
        }
        inner.errands.spawn_loop(inner.clone().keep_time());
        inner.errands.spawn_loop(inner.clone().keep_company());
        inner.errands.spawn_loop(inner.clone().keep_reconciled());
        inner.errands.spawn_loop(inner.clone().keep_tidy());
        inner.errands.spawn_loop(inner.clone().keep_pooled());
        inner.errands.spawn_loop(inner.clone().keep_queue());
        Ok(Self { inner })
    }

    /// What all sandboxes together may take.
    #[must_use]
    pub fn admission(&self) -> &AdmissionLimits {
        &self.inner.config.admission
    }

    #[must_use]
    pub fn node(&self) -> NodeId {
        self.inner.node
    }

    /// Leases a sandbox and begins its launch, or gives out a body that waits in the pool. Admission, quotas, key and
    /// lease are one transaction.
    pub async fn create(&self, ask: CreateAsk) -> Result<SandboxId, AdmitError> {
        match self.inner.provide(&Wanted::from(ask)).await? {
            Provided::New(id) | Provided::Known(id) => Ok(id),
        }
    }

    /// Creates a sandbox and asks for an execution in it, in one transaction. Where the key was used before, it is
    /// that sandbox and its first execution.
    pub async fn create_and_execute(
        &self,
        ask: CreateAsk,
        run: RunAsk,
    ) -> Result<(SandboxId, ExecutionId), RunError> {
        let RunAsk { command, kind, limits } = run;
        let execution = ExecutionId(self.inner.ids.fresh(self.inner.clock.now()));
        let new = NewExecution { id: execution, command: Arc::new(ask.spec.furnish(command.clone())) };
        let first = First { new, kind, limits: limits.or(ask.spec.execution) };
        let wanted = Wanted { first: Some(first), ..Wanted::from(ask) };
        wanted.may_run(self.inner.context(&wanted.policy)).map_err(ApplyError::Refused)?;
        let known = match self.inner.provide(&wanted).await? {
            Provided::New(id) => {
                let_it_begin().await;
                return Ok((id, execution));
            }
            Provided::Known(id) => id,
        };
        let executions = self.inner.store.executions(known).await.map_err(ApplyError::Store)?;
        let first = match executions.first() {
            Some(first) => first.execution.id,
            None => self.execute(known, command, kind, limits, true).await?,
        };
        Ok((known, first))
    }

    /// Waits until the sandbox passed its probes, or has ended, or the deadline is there.
    pub async fn wait_ready(
        &self,
        id: SandboxId,
        until: Timestamp,
    ) -> Result<Waited<Result<(), Cause>>, WaitError> {
        let ready = |stored: &Stored| match (&stored.sandbox.life, &stored.sandbox.lease) {
            (Life::Ending { cause, .. } | Life::Ended { cause, .. }, _) => Some(Err(*cause)),
            (Life::Wanted, Lease::Live(_)) => Some(Ok(())),
            (Life::Wanted, _) => None,
        };
        self.inner.wait_for(id, until, ready).await
    }

    /// Hears of every change to a sandbox.
    #[must_use]
    pub fn listen(&self, id: SandboxId) -> Listener {
        self.inner.waiters.listen(id)
    }

    /// The same for all of them.
    #[must_use]
    pub fn listen_to_all(&self) -> Listener {
        self.inner.waiters.listen_to_all()
    }

    pub async fn execute(
        &self,
        id: SandboxId,
        command: Command,
        kind: ExecutionKind,
        limits: ExecutionLimits,
        may_queue: bool,
    ) -> Result<ExecutionId, ApplyError> {
        let execution = ExecutionId(self.inner.ids.fresh(self.inner.clock.now()));
        // Who is given what waits in the pool may be for another node to say.
        let known = self.inner.known.get(id).filter(|it| it.sandbox.waits_in_pool_of().is_none());
        let stored = match known {
            Some(known) => Ok(Box::new(known)),
            None => self.inner.readable(id).await,
        };
        // A row that cannot be read now is refused below, with the reason.
        let (command, limits) = match stored {
            Ok(stored) => (stored.spec.furnish(command), limits.or(stored.spec.execution)),
            Err(_) => (command, limits),
        };
        let ask = Request::Execute { id: execution, kind, limits, may_queue };
        let new = NewExecution { id: execution, command: Arc::new(command) };
        self.inner.clone().apply(id, Input::Ask(ask), vec![new]).await?;
        let_it_begin().await;
        Ok(execution)
    }

    /// Waits until the execution has its outcome, or until the deadline.
    pub async fn wait_execution(
        &self,
        sandbox: SandboxId,
        execution: ExecutionId,
        until: Timestamp,
    ) -> Result<Waited<Outcome>, WaitError> {
        let left = |stored: &Stored| !stored.sandbox.executions.iter().any(|known| known.id == execution);
        match self.inner.wait_for(sandbox, until, |stored| left(stored).then_some(())).await {
            Ok(Waited::DeadlinePassed) => return Ok(Waited::DeadlinePassed),
            // Where the record of the sandbox is forgotten its executions are too.
            Ok(Waited::Met(())) => {}
            Err(error) => return Err(error),
        }
        let stored = self.inner.store.execution(execution).await?.ok_or(WaitError::Missing)?;
        stored.execution.outcome().cloned().map(Waited::Met).ok_or(WaitError::Missing)
    }

    pub async fn cancel(&self, id: SandboxId, execution: ExecutionId) -> Result<(), ApplyError> {
        self.ask(id, Request::Cancel { id: execution, cause: Cause::Cancelled }).await
    }

    /// Ends a sandbox from any state, and waits that long for the proof.
    pub async fn stop(
        &self,
        id: SandboxId,
        cause: Cause,
        forced: bool,
        wait_ms: u64,
    ) -> Result<Stop, ApplyError> {
        self.ask(id, Request::Stop { cause, forced }).await?;
        Ok(self.wait_gone(id, wait_ms).await?)
    }

    /// Waits that long for the proof that a sandbox is gone, whoever ended it.
    pub async fn wait_gone(&self, id: SandboxId, wait_ms: u64) -> Result<Stop, WaitError> {
        let until = self.inner.clock.now().after_ms(wait_ms);
        match self.inner.wait_for(id, until, gone).await? {
            Waited::Met(stop) => Ok(stop),
            Waited::DeadlinePassed => Ok(Stop::Pending),
        }
    }

    /// Ends a sandbox and forgets its record once its body is proven gone. The history stays.
    pub async fn forget(&self, id: SandboxId) -> Result<(), ApplyError> {
        self.ask(id, Request::Forget).await
    }

    pub async fn restart(&self, id: SandboxId, cause: Cause) -> Result<(), ApplyError> {
        self.ask(id, Request::Restart { cause }).await
    }

    /// Counts idleness anew. The body's own end is not moved: that is the sandbox's maximum life.
    pub async fn keep_alive(&self, id: SandboxId) -> Result<(), ApplyError> {
        self.ask(id, Request::KeepAlive).await
    }

    /// Takes an operator's word that a quarantined body is gone.
    pub async fn attest(&self, id: SandboxId, by: String, reason: String) -> Result<(), ApplyError> {
        self.ask(id, Request::Attest { by, reason }).await
    }

    /// Measured now, from the body itself.
    pub async fn usage(&self, id: SandboxId) -> Result<Usage, UsageError> {
        let stored = self.inner.readable(id).await?;
        let body = InstanceId { sandbox: id, generation: stored.sandbox.generation() };
        Ok(self.inner.provider.usage(body).await?)
    }

    /// Compares what is recorded with what is there, and repairs the difference if told to.
    pub async fn reconcile(&self, how: Reconcile) -> Result<ReconcileReport, ReconcileError> {
        self.inner.clone().reconcile(how).await
    }

    /// Ends this node in order. With [`OnExit::Stop`] it ends its sandboxes first, and waits that long. Says which of
    /// them are not proven gone by then: the next engine goes on with them.
    pub async fn shutdown(&self, on_exit: OnExit, wait_ms: u64) -> Result<Vec<SandboxId>, ApplyError> {
        let until = self.inner.clock.now().after_ms(wait_ms);
        self.inner.pool.close();
        let left = if on_exit == OnExit::Stop { self.stop_own(until).await? } else { Vec::new() };
        self.inner.give_up_own(until).await?;
        // Whatever is written after the good-bye would be nobody's.
        self.inner.errands.end_all().await;
        self.inner.say_goodbye().await?;
        Ok(left)
    }

    /// Again until there is none, or no more time: some may be asked for while others end.
    async fn stop_own(&self, until: Timestamp) -> Result<Vec<SandboxId>, ApplyError> {
        loop {
            let own = self.own().await?;
            if own.is_empty() {
                return Ok(own);
            }
            for id in &own {
                match self.ask(*id, Request::Stop { cause: Cause::Shutdown, forced: false }).await {
                    // Somebody has had it forgotten meanwhile.
                    Ok(()) | Err(ApplyError::Missing) => {}
                    Err(error) => return Err(error),
                }
            }
            for id in &own {
                match self.inner.wait_for(*id, until, gone).await {
                    Ok(_) | Err(WaitError::Missing) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            if until <= self.inner.clock.now() {
                return Ok(self.own().await?);
            }
        }
    }

    async fn own(&self) -> Result<Vec<SandboxId>, StoreError> {
        let (mut own, mut after) = (Vec::new(), None);
        loop {
            let page = self.inner.store.list(Filter::Present, after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(own) };
            after = Some(last.id());
            own.extend(
                page.iter().filter(|row| row.owner() == Some(self.node())).map(pinfold_store::Row::id),
            );
        }
    }

    async fn ask(&self, id: SandboxId, ask: Request) -> Result<(), ApplyError> {
        self.inner.clone().apply(id, Input::Ask(ask), Vec::new()).await
    }
}

/// Rows read at a time where all of them are.
pub(crate) const PAGE: usize = 500;

#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    #[error(transparent)]
    Wait(#[from] WaitError),
    #[error(transparent)]
    Body(#[from] AskBodyError),
}

/// What a commit calls for is done by a task of its own, which runs when this one pauses: that is to be before the
/// caller sets about anything else.
async fn let_it_begin() {
    tokio::task::yield_now().await;
}

pub(crate) fn gone(stored: &Stored) -> Option<Stop> {
    match &stored.sandbox.life {
        Life::Ended { cause, receipt, .. } if stored.sandbox.is_settled() => {
            Some(Stop::Gone { cause: *cause, receipt: receipt.clone() })
        }
        Life::Ended { .. } | Life::Ending { .. } | Life::Wanted => None,
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.inner.errands.abort_all();
    }
}
