//! Admission and create: a request gets a matching instance from the warm pool, or a new one. If there is no
//! room, pooled instances are discarded to make some.

use std::sync::Arc;

use pinfold_lifecycle::{
    AdmissionLimits, AdmissionRefusal, Cause, Command, Context, Demand, ExecutionId, ExecutionKind,
    ExecutionLimits, Fact, Lease, Policy, Refusal, Request, SandboxId, Spec, Timestamp, Totals, Transition,
    admit, create, request,
};
use pinfold_store::{
    AdmissionTerms, Change, ClaimError, CreateError, Created, IdempotencyKey, NewExecution, NewSandbox,
    PoolClaim, Row, Seq, StoreError, StoredSandbox,
};

use crate::engine::{Engine, Inner, yield_to_effect_task};
use crate::{AdmitError, ApplyError, QueueRequest};

/// Pooled sandboxes read per page. The oldest come first and are mostly ready.
const BATCH: usize = 8;

/// A decided create: everything but the room for it is settled, so it can be tried more than once. It comes from a
/// request of the API and ends in a row of the store ([`NewSandbox`], or [`PoolClaim`] for a pooled instance).
#[derive(Debug, Clone, Default)]
pub struct CreateRequest {
    pub spec: Arc<Spec>,
    pub policy: Arc<Policy>,
    pub key: Option<IdempotencyKey>,
    /// Queue the request if there is no room. None: refuse it.
    pub queue: Option<QueueRequest>,
    /// Requested in the same transaction as the sandbox.
    pub first: Option<FirstExecution>,
}

/// The first execution of a sandbox.
#[derive(Debug, Clone)]
pub struct FirstExecution {
    pub new: NewExecution,
    pub kind: ExecutionKind,
    pub limits: ExecutionLimits,
}

/// An execution to request together with its sandbox.
#[derive(Debug, Clone)]
pub struct RunRequest {
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

impl CreateRequest {
    /// Whether the policy accepts the first execution.
    fn may_run(&self, ctx: Context<'_>) -> Result<(), Refusal> {
        self.with_first(create(SandboxId(0), ctx), ctx).map(drop)
    }

    /// Adds the request for the first execution.
    fn with_first(&self, transition: Transition, ctx: Context<'_>) -> Result<Transition, Refusal> {
        let Some(FirstExecution { new, kind, limits }) = &self.first else {
            return Ok(transition);
        };
        let transfers = new.command.execution_files.transfers();
        let execute =
            Request::Execute { id: new.id, kind: *kind, limits: *limits, transfers, may_queue: true };
        let requested = request(&transition.sandbox, execute, ctx)?;
        Ok(transition.then(requested))
    }

    fn commands(&self) -> Vec<NewExecution> {
        self.first.iter().map(|first| first.new.clone()).collect()
    }
}

pub(crate) enum Admitted {
    New(SandboxId),
    /// The idempotency key was used before.
    Existing(SandboxId),
}

impl Engine {
    /// Leases a sandbox and starts its launch, or claims a pooled instance. Admission, quotas, key and lease
    /// are one transaction.
    pub async fn create(&self, request: CreateRequest) -> Result<SandboxId, AdmitError> {
        match self.inner.admit_and_create(&request).await? {
            Admitted::New(id) | Admitted::Existing(id) => Ok(id),
        }
    }

    /// Creates a sandbox and requests an execution in it, in one transaction. If the key was used before,
    /// returns that sandbox and its first execution.
    pub async fn create_and_execute(
        &self,
        request: CreateRequest,
        run: RunRequest,
    ) -> Result<(SandboxId, ExecutionId), RunError> {
        let RunRequest { command, kind, limits } = run;
        let execution = ExecutionId(self.inner.ids.fresh(self.inner.clock.now()));
        let new =
            NewExecution { id: execution, command: Arc::new(request.spec.with_defaults(command.clone())) };
        let first = FirstExecution { new, kind, limits: limits.or(request.spec.execution) };
        let request = CreateRequest { first: Some(first), ..request };
        request.may_run(self.inner.context(&request.policy)).map_err(ApplyError::Refused)?;
        let existing = match self.inner.admit_and_create(&request).await? {
            Admitted::New(id) => {
                yield_to_effect_task().await;
                return Ok((id, execution));
            }
            Admitted::Existing(id) => id,
        };
        let executions = self.inner.store.executions(existing).await.map_err(ApplyError::Store)?;
        let first = match executions.first() {
            Some(first) => first.execution.id,
            None => self.execute(existing, command, kind, limits, true).await?,
        };
        Ok((existing, first))
    }
}

impl Inner {
    async fn admit_and_create(self: &Arc<Self>, wanted: &CreateRequest) -> Result<Admitted, AdmitError> {
        match (self.create_or_claim(wanted, None).await, wanted.queue) {
            (Err(error), Some(queue)) if error.is_no_room() => self.wait_in_queue(wanted, queue, error).await,
            (admitted, _) => admitted,
        }
    }

    /// Creates or claims a sandbox now, for a request that is not queued or whose turn it is.
    pub(crate) async fn create_or_claim(
        self: &Arc<Self>,
        wanted: &CreateRequest,
        queue: Option<QueueRequest>,
    ) -> Result<Admitted, AdmitError> {
        let bid = AdmissionTerms {
            quotas: self.config.quotas.of(&wanted.spec),
            queue_id: queue.map(|queue| queue.id),
        };
        if let Err(no_room) = self.host_has_room().await {
            return self.find_by_key(wanted, &bid).await?.ok_or(AdmitError::NoRoom(no_room));
        }
        let until = self.clock.now().after_ms(self.config.pool_yield_ms);
        let until = queue.map_or(until, |queue| until.min(queue.until));
        if let Some(admitted) = self.claim(wanted, &bid).await? {
            return Ok(admitted);
        }
        loop {
            match self.create_new(wanted, &bid, self.config.admission).await {
                // Discarding pooled instances does not help against quotas or the queue's order.
                Err(CreateError::AdmissionRefused(
                    refused @ (AdmissionRefusal::Token { .. }
                    | AdmissionRefusal::Label { .. }
                    | AdmissionRefusal::Queue { .. }),
                )) => return Err(CreateError::AdmissionRefused(refused).into()),
                Err(refused @ CreateError::AdmissionRefused(_)) => {
                    if self.clock.now() >= until || !self.make_room(&wanted.spec.demand(), until).await? {
                        return Err(refused.into());
                    }
                }
                admitted => return Ok(admitted?),
            }
        }
    }

    /// When no sandbox can be admitted: a repeated request with the same key still gets its sandbox.
    async fn find_by_key(
        self: &Arc<Self>,
        wanted: &CreateRequest,
        bid: &AdmissionTerms,
    ) -> Result<Option<Admitted>, CreateError> {
        if wanted.key.is_none() {
            return Ok(None);
        }
        let admit_none = AdmissionLimits { sandboxes: Some(0), ..AdmissionLimits::default() };
        match self.create_new(wanted, bid, admit_none).await {
            Err(CreateError::AdmissionRefused(_)) => Ok(None),
            admitted => admitted.map(Some),
        }
    }

    /// Creates a sandbox; admission, key and lease are one transaction.
    async fn create_new(
        self: &Arc<Self>,
        wanted: &CreateRequest,
        bid: &AdmissionTerms,
        limits: AdmissionLimits,
    ) -> Result<Admitted, CreateError> {
        let id = SandboxId(self.ids.fresh(self.clock.now()));
        let ctx = self.context(&wanted.policy);
        let transition = wanted.with_first(create(id, ctx), ctx).map_err(|refusal| StoreError::Failed {
            action: "request the first execution",
            source: refusal.into(),
        })?;
        let new = NewSandbox {
            transition,
            spec: wanted.spec.clone(),
            policy: wanted.policy.clone(),
            key: wanted.key.clone(),
            commands: wanted.commands(),
            admission: bid.clone(),
        };
        match self.insert(new, limits).await? {
            Created::New(_) => Ok(Admitted::New(id)),
            Created::Existing(existing) => Ok(Admitted::Existing(existing)),
        }
    }

    /// None: no plan of this engine has this shape, or no instance is ready.
    async fn claim(
        self: &Arc<Self>,
        wanted: &CreateRequest,
        bid: &AdmissionTerms,
    ) -> Result<Option<Admitted>, CreateError> {
        let shape = wanted.spec.shape();
        if wanted.policy.ends_with_owner || !self.config.pool.iter().any(|plan| plan.shape == shape) {
            return Ok(None);
        }
        let mut after = None;
        loop {
            let waiting = self.store.pool_members(&shape, after, BATCH).await?;
            let Some(last) = waiting.last() else {
                self.pool.refill();
                return Ok(None);
            };
            after = Some(last.id());
            for row in waiting {
                if let Row::Readable(stored) = row
                    && let Some(admitted) = self.claim_one(&stored, wanted, bid).await?
                {
                    return Ok(Some(admitted));
                }
            }
        }
    }

    /// None: not ready, or claimed by another request.
    async fn claim_one(
        self: &Arc<Self>,
        stored: &StoredSandbox,
        wanted: &CreateRequest,
        bid: &AdmissionTerms,
    ) -> Result<Option<Admitted>, CreateError> {
        let id = stored.sandbox.id;
        let Some(_reservation) = self.pool.reserve(id) else {
            return Ok(None);
        };
        let claim = Request::Claim { shape: Box::new(wanted.spec.shape()) };
        let ctx: Context<'_> = self.context(&wanted.policy);
        let Ok(transition) = request(&stored.sandbox, claim, ctx) else {
            return Ok(None);
        };
        let Ok(transition) = wanted.with_first(transition, ctx) else {
            return Ok(None);
        };
        let claim = PoolClaim {
            change: Change {
                transition: transition.clone(),
                version: stored.version,
                commands: wanted.commands(),
            },
            spec: wanted.spec.clone(),
            policy: wanted.policy.clone(),
            key: wanted.key.clone(),
            admission: bid.clone(),
            limits: self.config.admission,
        };
        match self.store.claim(claim).await {
            Ok(Created::New(version)) => {
                let (spec, policy) = (wanted.spec.clone(), wanted.policy.clone());
                let stored = StoredSandbox { sandbox: transition.sandbox.clone(), spec, policy, version };
                self.row_cache.insert(stored, wanted.commands());
            }
            Ok(Created::Existing(existing)) => return Ok(Some(Admitted::Existing(existing))),
            Err(ClaimError::Taken) => return Ok(None),
            Err(ClaimError::AdmissionRefused(scarcity)) => {
                return Err(CreateError::AdmissionRefused(scarcity));
            }
            Err(ClaimError::NotQueued { id: queue }) => return Err(CreateError::NotQueued { id: queue }),
            Err(ClaimError::KeyReused { key }) => return Err(CreateError::KeyReused { key }),
            Err(ClaimError::NameTaken { name, id }) => return Err(CreateError::NameTaken { name, id }),
            Err(ClaimError::Store(unknown @ StoreError::OutcomeUnknown { .. })) => {
                if !self.was_claimed_by_this_node(id).await? {
                    return Err(unknown.into());
                }
            }
            Err(ClaimError::Store(error)) => return Err(error.into()),
        }
        self.clone().after_commit(transition);
        self.pool.refill();
        Ok(Some(Admitted::New(id)))
    }

    /// Whether a claim with unknown outcome happened. An instance is claimed once, and the history names the
    /// node; no other request of this node was claiming it.
    async fn was_claimed_by_this_node(&self, id: SandboxId) -> Result<bool, StoreError> {
        let history = self.store.history(Some(id), Seq::default(), usize::MAX).await?;
        let mut records = history.iter().map(|row| &row.record);
        Ok(records.any(|record| record.fact == Fact::Created && record.by == self.node))
    }

    /// Discards pooled instances to make room. False: the pool does not hold enough.
    async fn make_room(self: &Arc<Self>, requested: &Demand, until: Timestamp) -> Result<bool, StoreError> {
        let mut totals = self.store.totals().await?;
        let mut pooled = self.pooled().await?;
        pooled.retain(|stored| can_be_discarded(&stored.sandbox.lease, until));
        // First those that are ending anyway.
        pooled.sort_by_key(|stored| stored.sandbox.pool_shape().is_some());
        let to_discard = to_discard(&mut totals, &pooled, requested, &self.config.admission);
        if admit(&totals, requested, &self.config.admission).is_err() {
            return Ok(false);
        }
        for stored in &to_discard {
            self.discard_pooled(stored.sandbox.id, Cause::Cancelled).await;
        }
        for stored in to_discard {
            self.wait_until_out_of_pool(stored.sandbox.id, until).await;
        }
        Ok(true)
    }
}

/// A quarantined instance keeps its room for an unknown time.
fn can_be_discarded(lease: &Lease, until: Timestamp) -> bool {
    match lease {
        Lease::Quarantined { .. } => false,
        Lease::StopWaiting { next_at, .. } => *next_at < until,
        _ => true,
    }
}

/// Selects as few pooled sandboxes as suffice, or all, and subtracts them from the totals.
fn to_discard<'a>(
    totals: &mut Totals,
    pooled: &'a [StoredSandbox],
    requested: &Demand,
    limits: &AdmissionLimits,
) -> Vec<&'a StoredSandbox> {
    let mut found = Vec::new();
    for stored in pooled {
        if admit(totals, requested, limits).is_ok() {
            break;
        }
        let demand = stored.spec.demand();
        totals.pooled = totals.pooled.saturating_sub(1);
        totals.taken.memory_mb = totals.taken.memory_mb.saturating_sub(demand.memory_mb);
        totals.taken.disk_mb = totals.taken.disk_mb.saturating_sub(demand.disk_mb);
        totals.taken.processes = totals.taken.processes.saturating_sub(demand.processes);
        found.push(stored);
    }
    found
}
