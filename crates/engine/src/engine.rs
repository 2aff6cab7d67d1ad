//! The engine's public interface: requests go in, and answers report what is proven.

use std::sync::atomic::AtomicI64;
use std::sync::{Arc, OnceLock};

use pinfold_lifecycle::{
    AdmissionLimits, Cause, Command, ExecutionId, ExecutionKind, ExecutionLimits, Lease, Life, NodeId,
    Outcome, Receipt, Request, SandboxId, Timestamp,
};
use pinfold_provider::{InstanceError, InstanceId, Provider, Usage};
use pinfold_store::{NewExecution, Store, StoreError, StoredSandbox};
use tokio::sync::Notify;

use crate::apply::Input;
use crate::change_notifier::{ChangeListener, ChangeNotifier};
use crate::cleanup::ObserverSlot;
use crate::concurrency_limits::ConcurrencyLimits;
use crate::effect_tasks::EffectTasks;
use crate::host_capacity::HostCapacityCache;
use crate::pool::Pool;
use crate::prefetch::Prefetches;
use crate::queue::QueueWaiters;
use crate::row_cache::RowCache;
use crate::{
    ApplyError, ArtifactCollector, Clock, Config, Ids, NodeLiveness, Observer, ReconcileError, ReconcileMode,
    ReconcileReport, WaitError, WaitOutcome,
};

/// What an engine depends on. Everything it learns of the world comes through these.
#[derive(Clone)]
pub struct Parts {
    pub store: Arc<dyn Store>,
    pub provider: Arc<dyn Provider>,
    pub artifacts: Arc<dyn ArtifactCollector>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub liveness: Arc<dyn NodeLiveness>,
}

/// One node. Dropping it aborts its tasks at once, like a crash; its state stays in the store.
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) node: NodeId,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) artifacts: Arc<dyn ArtifactCollector>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) liveness: Arc<dyn NodeLiveness>,
    pub(crate) config: Config,
    pub(crate) row_cache: RowCache,
    pub(crate) effect_tasks: EffectTasks,
    pub(crate) prefetches: Prefetches,
    pub(crate) limits: ConcurrencyLimits,
    pub(crate) changes: Arc<ChangeNotifier>,
    pub(crate) pool: Pool,
    pub(crate) room: HostCapacityCache,
    pub(crate) queue: QueueWaiters,
    pub(crate) observer: OnceLock<Arc<dyn Observer>>,
    pub(crate) cleanup_observer: ObserverSlot,
    /// The time the deadline loop sleeps until, and the notification that wakes it for an earlier one.
    pub(crate) armed_for: AtomicI64,
    pub(crate) timer: Notify,
}

#[derive(Debug, thiserror::Error)]
#[error("could not register this node")]
pub struct EngineStartError(#[from] StoreError);

/// The progress of a stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopProgress {
    /// Proven gone, or attested to be: see the receipt.
    Gone { cause: Cause, receipt: Box<Receipt> },
    /// Not proven gone yet; the stop continues in the background.
    Pending,
}

impl Engine {
    /// Registers this node and starts its loops.
    pub async fn start(parts: Parts, config: Config) -> Result<Self, EngineStartError> {
        let Parts { store, provider, artifacts, clock, ids, liveness } = parts;
        let node = NodeId(ids.fresh(clock.now()));
        store.heartbeat(liveness.this_node(node), clock.now()).await?;
        let inner = Arc::new(Inner {
            node,
            store,
            provider,
            artifacts,
            clock,
            ids,
            liveness,
            row_cache: RowCache::default(),
            effect_tasks: EffectTasks::default(),
            prefetches: Prefetches::default(),
            limits: ConcurrencyLimits::new(&config),
            changes: Arc::default(),
            pool: Pool::default(),
            room: HostCapacityCache::default(),
            queue: QueueWaiters::default(),
            observer: OnceLock::new(),
            cleanup_observer: ObserverSlot::default(),
            armed_for: AtomicI64::new(i64::MAX),
            timer: Notify::new(),
            config,
        });
        if let Err(error) = inner.adopt_after_reboot().await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "adopting sandboxes after a reboot failed, retrying with the next heartbeat"
            );
        }
        inner.effect_tasks.spawn_loop(inner.clone().deadline_loop());
        inner.effect_tasks.spawn_loop(inner.clone().heartbeat_loop());
        inner.effect_tasks.spawn_loop(inner.clone().reconcile_loop());
        inner.effect_tasks.spawn_loop(inner.clone().suspect_loop());
        inner.effect_tasks.spawn_loop(inner.clone().retention_loop());
        inner.effect_tasks.spawn_loop(inner.clone().pool_loop());
        inner.effect_tasks.spawn_loop(inner.clone().queue_loop());
        Ok(Self { inner })
    }

    /// Limits over all sandboxes together.
    #[must_use]
    pub fn admission(&self) -> &AdmissionLimits {
        &self.inner.config.admission
    }

    #[must_use]
    pub fn node(&self) -> NodeId {
        self.inner.node
    }

    /// Waits until the sandbox is ready or has ended, or until the deadline.
    pub async fn wait_ready(
        &self,
        id: SandboxId,
        until: Timestamp,
    ) -> Result<WaitOutcome<Result<(), Cause>>, WaitError> {
        let ready = |stored: &StoredSandbox| match (&stored.sandbox.life, &stored.sandbox.lease) {
            (Life::Ending { cause, .. } | Life::Ended { cause, .. }, _) => Some(Err(*cause)),
            (Life::Wanted, Lease::Live(_)) => Some(Ok(())),
            (Life::Wanted, _) => None,
        };
        self.inner.wait_for(id, until, ready).await
    }

    /// Listens to changes of one sandbox.
    #[must_use]
    pub fn listen(&self, id: SandboxId) -> ChangeListener {
        self.inner.changes.listen(id)
    }

    /// Listens to changes of all sandboxes.
    #[must_use]
    pub fn listen_to_all(&self) -> ChangeListener {
        self.inner.changes.listen_to_all()
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
        // A pooled row may be claimed by another node, so it is read from the store.
        let existing = self.inner.row_cache.get(id).filter(|it| it.sandbox.pool_shape().is_none());
        let stored = match existing {
            Some(existing) => Ok(Box::new(existing)),
            None => self.inner.readable(id).await,
        };
        // If the row cannot be read, `apply` below reports the reason.
        let (command, limits) = match stored {
            Ok(stored) => (stored.spec.with_defaults(command), limits.or(stored.spec.execution)),
            Err(_) => (command, limits),
        };
        let transfers = command.execution_files.transfers();
        let request = Request::Execute { id: execution, kind, limits, transfers, may_queue };
        let new = NewExecution { id: execution, command: Arc::new(command) };
        self.inner.clone().apply(id, Input::Request(request), vec![new]).await?;
        yield_to_effect_task().await;
        Ok(execution)
    }

    /// Waits until the execution has its outcome, or until the deadline.
    pub async fn wait_execution(
        &self,
        sandbox: SandboxId,
        execution: ExecutionId,
        until: Timestamp,
    ) -> Result<WaitOutcome<Outcome>, WaitError> {
        let left = |stored: &StoredSandbox| {
            !stored.sandbox.executions.iter().any(|existing| existing.id == execution)
        };
        match self.inner.wait_for(sandbox, until, |stored| left(stored).then_some(())).await {
            Ok(WaitOutcome::DeadlinePassed) => return Ok(WaitOutcome::DeadlinePassed),
            // If the sandbox's record was deleted, its executions were too.
            Ok(WaitOutcome::Met(())) => {}
            Err(error) => return Err(error),
        }
        let stored = self.inner.store.execution(execution).await?.ok_or(WaitError::Missing)?;
        stored.execution.outcome().cloned().map(WaitOutcome::Met).ok_or(WaitError::Missing)
    }

    pub async fn cancel(&self, id: SandboxId, execution: ExecutionId) -> Result<(), ApplyError> {
        self.request(id, Request::Cancel { id: execution, cause: Cause::Cancelled }).await
    }

    /// Stops a sandbox from any state, and waits up to `wait_ms` for the proof. `grace_ms`: from SIGTERM to SIGKILL;
    /// `None`: as its policy says.
    pub async fn stop(
        &self,
        id: SandboxId,
        cause: Cause,
        grace_ms: Option<u64>,
        wait_ms: u64,
    ) -> Result<StopProgress, ApplyError> {
        self.request(id, Request::Stop { cause, grace_ms }).await?;
        Ok(self.wait_gone(id, wait_ms).await?)
    }

    /// Waits up to `wait_ms` for the proof that a sandbox is gone, whatever ended it.
    pub async fn wait_gone(&self, id: SandboxId, wait_ms: u64) -> Result<StopProgress, WaitError> {
        let until = self.inner.clock.now().after_ms(wait_ms);
        match self.inner.wait_for(id, until, gone).await? {
            WaitOutcome::Met(stop) => Ok(stop),
            WaitOutcome::DeadlinePassed => Ok(StopProgress::Pending),
        }
    }

    /// Stops a sandbox and deletes its record once its instance is proven gone. The history stays.
    pub async fn forget(&self, id: SandboxId) -> Result<(), ApplyError> {
        self.request(id, Request::Forget).await
    }

    pub async fn restart(&self, id: SandboxId, cause: Cause) -> Result<(), ApplyError> {
        self.request(id, Request::Restart { cause }).await
    }

    /// Restarts the idle timeout. The maximum life is not extended.
    pub async fn keep_alive(&self, id: SandboxId) -> Result<(), ApplyError> {
        self.request(id, Request::KeepAlive).await
    }

    /// Records an operator's attestation that a quarantined instance is gone.
    pub async fn attest(&self, id: SandboxId, by: String, reason: String) -> Result<(), ApplyError> {
        self.request(id, Request::Attest { by, reason }).await
    }

    /// Measures the instance now.
    pub async fn usage(&self, id: SandboxId) -> Result<Usage, UsageError> {
        let stored = self.inner.readable(id).await?;
        let instance = InstanceId { sandbox: id, generation: stored.sandbox.generation() };
        Ok(self.inner.provider.usage(instance).await?)
    }

    /// Compares records with instances, and repairs differences in `Repair` mode.
    pub async fn reconcile(&self, mode: ReconcileMode) -> Result<ReconcileReport, ReconcileError> {
        self.inner.clone().reconcile(mode).await
    }

    pub(crate) async fn request(&self, id: SandboxId, request: Request) -> Result<(), ApplyError> {
        self.inner.clone().apply(id, Input::Request(request), Vec::new()).await
    }
}

/// Rows per page.
pub(crate) const PAGE: usize = 500;

#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    #[error(transparent)]
    Wait(#[from] WaitError),
    #[error(transparent)]
    Instance(#[from] InstanceError),
}

/// Lets the effect's task, which was just spawned, run before the caller continues.
pub(crate) async fn yield_to_effect_task() {
    tokio::task::yield_now().await;
}

pub(crate) fn gone(stored: &StoredSandbox) -> Option<StopProgress> {
    match &stored.sandbox.life {
        Life::Ended { cause, receipt, .. } if stored.sandbox.is_settled() => {
            Some(StopProgress::Gone { cause: *cause, receipt: receipt.clone() })
        }
        Life::Ended { .. } | Life::Ending { .. } | Life::Wanted => None,
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.inner.effect_tasks.abort_all();
    }
}
