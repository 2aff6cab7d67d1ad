//! Admission and create: a request gets a matching instance from the warm pool, or a new one. If there is no
//! room, pooled instances are discarded to make some.

use std::sync::Arc;

use pinfold_lifecycle::{
    AdmissionLimits, AdmissionRefusal, Cause, Context, Demand, ExecutionKind, ExecutionLimits, Fact, Lease,
    Policy, Refusal, Request, SandboxId, Spec, Timestamp, Totals, Transition, admit, create, request,
};
use pinfold_store::{
    AdmissionTerms, Change, ClaimError, CreateError, Created, IdempotencyKey, NewExecution, NewSandbox,
    PoolClaim, Row, Seq, StoreError, StoredSandbox,
};

use crate::engine::Inner;
use crate::{AdmitError, QueueRequest};

/// Pooled sandboxes read per page. The oldest come first and are mostly ready.
const BATCH: usize = 8;

/// A create request, ready to be tried more than once.
pub(crate) struct PreparedCreate {
    pub(crate) spec: Arc<Spec>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) key: Option<IdempotencyKey>,
    pub(crate) queue: Option<QueueRequest>,
    pub(crate) first: Option<FirstExecution>,
}

/// The first execution, requested in the same transaction as the sandbox.
pub(crate) struct FirstExecution {
    pub(crate) new: NewExecution,
    pub(crate) kind: ExecutionKind,
    pub(crate) limits: ExecutionLimits,
}

impl PreparedCreate {
    /// Whether the policy accepts the first execution.
    pub(crate) fn may_run(&self, ctx: Context<'_>) -> Result<(), Refusal> {
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

impl Inner {
    pub(crate) async fn admit_and_create(
        self: &Arc<Self>,
        prepared: &PreparedCreate,
    ) -> Result<Admitted, AdmitError> {
        match (self.create_or_claim(prepared, None).await, prepared.queue) {
            (Err(error), Some(queue)) if error.is_no_room() => {
                self.wait_in_queue(prepared, queue, error).await
            }
            (admitted, _) => admitted,
        }
    }

    /// Creates or claims a sandbox now, for a request that is not queued or whose turn it is.
    pub(crate) async fn create_or_claim(
        self: &Arc<Self>,
        prepared: &PreparedCreate,
        queue: Option<QueueRequest>,
    ) -> Result<Admitted, AdmitError> {
        let bid = AdmissionTerms {
            quotas: self.config.quotas.of(&prepared.spec),
            queue_id: queue.map(|queue| queue.id),
        };
        if let Err(no_room) = self.host_has_room().await {
            return self.find_by_key(prepared, &bid).await?.ok_or(AdmitError::NoRoom(no_room));
        }
        let until = self.clock.now().after_ms(self.config.pool_yield_ms);
        let until = queue.map_or(until, |queue| until.min(queue.until));
        if let Some(admitted) = self.claim(prepared, &bid).await? {
            return Ok(admitted);
        }
        loop {
            match self.create_new(prepared, &bid, self.config.admission).await {
                // Discarding pooled instances does not help against quotas or the queue's order.
                Err(CreateError::AdmissionRefused(
                    refused @ (AdmissionRefusal::Token { .. }
                    | AdmissionRefusal::Label { .. }
                    | AdmissionRefusal::Queue { .. }),
                )) => return Err(CreateError::AdmissionRefused(refused).into()),
                Err(refused @ CreateError::AdmissionRefused(_)) => {
                    if self.clock.now() >= until || !self.make_room(&prepared.spec.demand(), until).await? {
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
        prepared: &PreparedCreate,
        bid: &AdmissionTerms,
    ) -> Result<Option<Admitted>, CreateError> {
        if prepared.key.is_none() {
            return Ok(None);
        }
        let admit_none = AdmissionLimits { sandboxes: Some(0), ..AdmissionLimits::default() };
        match self.create_new(prepared, bid, admit_none).await {
            Err(CreateError::AdmissionRefused(_)) => Ok(None),
            admitted => admitted.map(Some),
        }
    }

    /// Creates a sandbox; admission, key and lease are one transaction.
    async fn create_new(
        self: &Arc<Self>,
        prepared: &PreparedCreate,
        bid: &AdmissionTerms,
        limits: AdmissionLimits,
    ) -> Result<Admitted, CreateError> {
        let id = SandboxId(self.ids.fresh(self.clock.now()));
        let ctx = self.context(&prepared.policy);
        let transition = prepared.with_first(create(id, ctx), ctx).map_err(|refusal| StoreError::Failed {
            action: "request the first execution",
            source: refusal.into(),
        })?;
        let new = NewSandbox {
            transition,
            spec: prepared.spec.clone(),
            policy: prepared.policy.clone(),
            key: prepared.key.clone(),
            commands: prepared.commands(),
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
        prepared: &PreparedCreate,
        bid: &AdmissionTerms,
    ) -> Result<Option<Admitted>, CreateError> {
        let shape = prepared.spec.shape();
        if prepared.policy.ends_with_owner || !self.config.pool.iter().any(|plan| plan.shape == shape) {
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
                    && let Some(admitted) = self.claim_one(&stored, prepared, bid).await?
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
        prepared: &PreparedCreate,
        bid: &AdmissionTerms,
    ) -> Result<Option<Admitted>, CreateError> {
        let id = stored.sandbox.id;
        let Some(_reservation) = self.pool.reserve(id) else {
            return Ok(None);
        };
        let claim = Request::Claim { shape: Box::new(prepared.spec.shape()) };
        let ctx: Context<'_> = self.context(&prepared.policy);
        let Ok(transition) = request(&stored.sandbox, claim, ctx) else {
            return Ok(None);
        };
        let Ok(transition) = prepared.with_first(transition, ctx) else {
            return Ok(None);
        };
        let claim = PoolClaim {
            change: Change {
                transition: transition.clone(),
                version: stored.version,
                commands: prepared.commands(),
            },
            spec: prepared.spec.clone(),
            policy: prepared.policy.clone(),
            key: prepared.key.clone(),
            admission: bid.clone(),
            limits: self.config.admission,
        };
        match self.store.claim(claim).await {
            Ok(Created::New(version)) => {
                let (spec, policy) = (prepared.spec.clone(), prepared.policy.clone());
                let stored = StoredSandbox { sandbox: transition.sandbox.clone(), spec, policy, version };
                self.row_cache.insert(stored, prepared.commands());
            }
            Ok(Created::Existing(existing)) => return Ok(Some(Admitted::Existing(existing))),
            Err(ClaimError::Taken) => return Ok(None),
            Err(ClaimError::AdmissionRefused(scarcity)) => {
                return Err(CreateError::AdmissionRefused(scarcity));
            }
            Err(ClaimError::NotQueued { id: queue }) => return Err(CreateError::NotQueued { id: queue }),
            Err(ClaimError::KeyReused { key }) => return Err(CreateError::KeyReused { key }),
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
        // FirstExecution those that are ending anyway.
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
