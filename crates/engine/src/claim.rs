//! How a wish for a sandbox is met: by a body that waits in the pool if one is fit, else by one of its own. Where
//! there is no room, the pool makes it.

use std::sync::Arc;

use pinfold_lifecycle::{
    AdmissionLimits, Cause, Context, Demand, ExecutionKind, ExecutionLimits, Fact, Lease, Policy, Refusal,
    Request, SandboxId, Scarcity, Spec, Timestamp, Totals, Transition, admit, create, request,
};
use pinfold_store::{
    Bid, Change, Claim, ClaimError, CreateError, Created, IdempotencyKey, NewExecution, NewSandbox, Row, Seq,
    StoreError, Stored,
};

use crate::engine::Inner;
use crate::{AdmitError, QueueAsk};

/// Read at a time of what waits. The oldest come first, and those are mostly ready.
const BATCH: usize = 8;

/// What somebody wants, ready to be tried more than once.
pub(crate) struct Wanted {
    pub(crate) spec: Arc<Spec>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) key: Option<IdempotencyKey>,
    pub(crate) queue: Option<QueueAsk>,
    pub(crate) first: Option<First>,
}

/// What is to run in it, asked for in the same transaction.
pub(crate) struct First {
    pub(crate) new: NewExecution,
    pub(crate) kind: ExecutionKind,
    pub(crate) limits: ExecutionLimits,
}

impl Wanted {
    /// Whether its policy has a place for what is to run first.
    pub(crate) fn may_run(&self, ctx: Context<'_>) -> Result<(), Refusal> {
        self.with_first(create(SandboxId(0), ctx), ctx).map(drop)
    }

    /// Asks for what is to run first, too.
    fn with_first(&self, transition: Transition, ctx: Context<'_>) -> Result<Transition, Refusal> {
        let Some(First { new, kind, limits }) = &self.first else {
            return Ok(transition);
        };
        let wish = Request::Execute { id: new.id, kind: *kind, limits: *limits, may_queue: true };
        let asked = request(&transition.sandbox, wish, ctx)?;
        Ok(transition.then(asked))
    }

    fn commands(&self) -> Vec<NewExecution> {
        self.first.iter().map(|first| first.new.clone()).collect()
    }
}

pub(crate) enum Provided {
    New(SandboxId),
    /// Its key was used before.
    Known(SandboxId),
}

impl Inner {
    pub(crate) async fn provide(self: &Arc<Self>, wanted: &Wanted) -> Result<Provided, AdmitError> {
        match (self.provide_now(wanted, None).await, wanted.queue) {
            (Err(error), Some(queue)) if error.is_for_want_of_room() => {
                self.wait_in_queue(wanted, queue, error).await
            }
            (provided, _) => provided,
        }
    }

    /// For whoever is not in the queue, or has a place in it.
    pub(crate) async fn provide_now(
        self: &Arc<Self>,
        wanted: &Wanted,
        place: Option<QueueAsk>,
    ) -> Result<Provided, AdmitError> {
        let bid = Bid { quotas: self.config.quotas.of(&wanted.spec), place: place.map(|place| place.id) };
        if let Err(no_room) = self.host_has_room().await {
            return self.provide_again(wanted, &bid).await?.ok_or(AdmitError::NoRoom(no_room));
        }
        let until = self.clock.now().after_ms(self.config.pool_yield_ms);
        let until = place.map_or(until, |place| until.min(place.until));
        if let Some(provided) = self.claim(wanted, &bid).await? {
            return Ok(provided);
        }
        loop {
            match self.create_cold(wanted, &bid, self.config.admission).await {
                // The pool has nothing to do with quotas, and those who wait are told of their turn.
                Err(CreateError::Scarce(
                    scarce @ (Scarcity::Token { .. } | Scarcity::Label { .. } | Scarcity::Queue { .. }),
                )) => return Err(CreateError::Scarce(scarce).into()),
                Err(scarce @ CreateError::Scarce(_)) => {
                    if self.clock.now() >= until || !self.make_room(&wanted.spec.demand(), until).await? {
                        return Err(scarce.into());
                    }
                }
                provided => return Ok(provided?),
            }
        }
    }

    /// Where nobody new is let in: whoever asks again for what it was given before still gets that.
    async fn provide_again(
        self: &Arc<Self>,
        wanted: &Wanted,
        bid: &Bid,
    ) -> Result<Option<Provided>, CreateError> {
        if wanted.key.is_none() {
            return Ok(None);
        }
        let nobody_new = AdmissionLimits { sandboxes: Some(0), ..AdmissionLimits::default() };
        match self.create_cold(wanted, bid, nobody_new).await {
            Err(CreateError::Scarce(_)) => Ok(None),
            provided => provided.map(Some),
        }
    }

    /// Admission, key and lease are one transaction.
    async fn create_cold(
        self: &Arc<Self>,
        wanted: &Wanted,
        bid: &Bid,
        limits: AdmissionLimits,
    ) -> Result<Provided, CreateError> {
        let id = SandboxId(self.ids.fresh(self.clock.now()));
        let ctx = self.context(&wanted.policy);
        let transition = wanted.with_first(create(id, ctx), ctx).map_err(|refusal| StoreError::Failed {
            doing: "ask for what is to run first",
            source: refusal.into(),
        })?;
        let new = NewSandbox {
            transition,
            spec: wanted.spec.clone(),
            policy: wanted.policy.clone(),
            key: wanted.key.clone(),
            commands: wanted.commands(),
            bid: bid.clone(),
        };
        match self.insert(new, limits).await? {
            Created::New(_) => Ok(Provided::New(id)),
            Created::Known(known) => Ok(Provided::Known(known)),
        }
    }

    /// None: no plan of this engine speaks of such bodies, or none is ready.
    async fn claim(self: &Arc<Self>, wanted: &Wanted, bid: &Bid) -> Result<Option<Provided>, CreateError> {
        let shape = wanted.spec.shape();
        if wanted.policy.ends_with_owner || !self.config.pool.iter().any(|plan| plan.shape == shape) {
            return Ok(None);
        }
        let mut after = None;
        loop {
            let waiting = self.store.waiting(&shape, after, BATCH).await?;
            let Some(last) = waiting.last() else {
                self.pool.refill();
                return Ok(None);
            };
            after = Some(last.id());
            for row in waiting {
                if let Row::Readable(stored) = row
                    && let Some(provided) = self.claim_one(&stored, wanted, bid).await?
                {
                    return Ok(Some(provided));
                }
            }
        }
    }

    /// None: it is not ready, or somebody else was quicker.
    async fn claim_one(
        self: &Arc<Self>,
        stored: &Stored,
        wanted: &Wanted,
        bid: &Bid,
    ) -> Result<Option<Provided>, CreateError> {
        let id = stored.sandbox.id;
        let Some(_reach) = self.pool.reach_for(id) else {
            return Ok(None);
        };
        let wish = Request::Claim { shape: Box::new(wanted.spec.shape()) };
        let ctx: Context<'_> = self.context(&wanted.policy);
        let Ok(transition) = request(&stored.sandbox, wish, ctx) else {
            return Ok(None);
        };
        let Ok(transition) = wanted.with_first(transition, ctx) else {
            return Ok(None);
        };
        let claim = Claim {
            change: Change {
                transition: transition.clone(),
                version: stored.version,
                commands: wanted.commands(),
            },
            spec: wanted.spec.clone(),
            policy: wanted.policy.clone(),
            key: wanted.key.clone(),
            bid: bid.clone(),
            limits: self.config.admission,
        };
        match self.store.claim(claim).await {
            Ok(Created::New(version)) => {
                let (spec, policy) = (wanted.spec.clone(), wanted.policy.clone());
                let stored = Stored { sandbox: transition.sandbox.clone(), spec, policy, version };
                self.known.wrote(stored, wanted.commands());
            }
            Ok(Created::Known(known)) => return Ok(Some(Provided::Known(known))),
            Err(ClaimError::Taken) => return Ok(None),
            Err(ClaimError::Scarce(scarcity)) => return Err(CreateError::Scarce(scarcity)),
            Err(ClaimError::NotWaiting { place }) => return Err(CreateError::NotWaiting { place }),
            Err(ClaimError::KeyReused { key }) => return Err(CreateError::KeyReused { key }),
            Err(ClaimError::Store(unclear @ StoreError::Unclear { .. })) => {
                if !self.was_given_here(id).await? {
                    return Err(unclear.into());
                }
            }
            Err(ClaimError::Store(error)) => return Err(error.into()),
        }
        self.clone().follow(transition);
        self.pool.refill();
        Ok(Some(Provided::New(id)))
    }

    /// Whether a claim with an unclear outcome has happened. A body is given out once, and the history says by whom;
    /// nobody else here was reaching for it.
    async fn was_given_here(&self, id: SandboxId) -> Result<bool, StoreError> {
        let history = self.store.history(Some(id), Seq::default(), usize::MAX).await?;
        let mut records = history.iter().map(|row| &row.record);
        Ok(records.any(|record| record.fact == Fact::Created && record.by == self.node))
    }

    /// Gives up what waits in the pool for whoever asks. False: it is not the pool that takes the room.
    async fn make_room(self: &Arc<Self>, asked: &Demand, until: Timestamp) -> Result<bool, StoreError> {
        let mut totals = self.store.totals().await?;
        let mut pooled = self.pooled().await?;
        pooled.retain(|stored| gives_way(&stored.sandbox.lease, until));
        // Those that are ending anyway first.
        pooled.sort_by_key(|stored| stored.sandbox.waits_in_pool_of().is_some());
        let in_the_way = in_the_way(&mut totals, &pooled, asked, &self.config.admission);
        if admit(&totals, asked, &self.config.admission).is_err() {
            return Ok(false);
        }
        for stored in &in_the_way {
            self.give_up(stored.sandbox.id, Cause::Cancelled).await;
        }
        for stored in in_the_way {
            self.wait_until_out_of_pool(stored.sandbox.id, until).await;
        }
        Ok(true)
    }
}

/// One that could not be proven gone holds its place for nobody knows how long.
fn gives_way(lease: &Lease, until: Timestamp) -> bool {
    match lease {
        Lease::Quarantined { .. } => false,
        Lease::StopWaiting { next_at, .. } => *next_at < until,
        _ => true,
    }
}

/// As many as it takes, or all of them, with the totals as they are without those.
fn in_the_way<'a>(
    totals: &mut Totals,
    pooled: &'a [Stored],
    asked: &Demand,
    limits: &AdmissionLimits,
) -> Vec<&'a Stored> {
    let mut found = Vec::new();
    for stored in pooled {
        if admit(totals, asked, limits).is_ok() {
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
