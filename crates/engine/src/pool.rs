//! The warm pool: bodies that are launched and probed ahead of need. How many wait is what the store counts, so any
//! number of engines fill one pool, and an engine sees to the bodies it owns.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pinfold_lifecycle::{Cause, Lease, Life, Policy, Request, SandboxId, Shape, Timestamp, create_pooled};
use pinfold_store::{Bid, FillError, Filter, NewSandbox, Row, StoreError, Stored};
use tokio::sync::Notify;

use crate::ApplyError;
use crate::apply::Input;
use crate::engine::{Inner, PAGE};

/// So many bodies of one shape are kept ready.
#[derive(Debug, Clone)]
pub struct PoolPlan {
    pub shape: Shape,
    /// Of the bodies while they wait. Their time is [`crate::Config::pool_life_ms`].
    pub policy: Policy,
    pub size: u64,
}

/// What the parts of an engine that use the pool tell each other.
#[derive(Default)]
pub(crate) struct Pool {
    closed: AtomicBool,
    one_is_gone: Notify,
    /// Bodies that somebody here is about to claim, so that not all of them try the same one.
    claiming: Mutex<BTreeSet<SandboxId>>,
}

impl Pool {
    /// Nothing is added to it any more.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn refill(&self) {
        self.one_is_gone.notify_one();
    }

    fn claiming(&self) -> MutexGuard<'_, BTreeSet<SandboxId>> {
        self.claiming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// None: somebody else here has reached for it.
    pub(crate) fn reach_for(&self, id: SandboxId) -> Option<Reach<'_>> {
        // Made only by the first, and not while the lock is held: what is made here and not given out lets go at once.
        let is_first = self.claiming().insert(id);
        is_first.then(|| Reach { pool: self, id })
    }
}

pub(crate) struct Reach<'a> {
    pool: &'a Pool,
    id: SandboxId,
}

impl Drop for Reach<'_> {
    fn drop(&mut self) {
        self.pool.claiming().remove(&self.id);
    }
}

/// How filling one plan gets on.
struct Filling {
    plan: PoolPlan,
    /// Launched here, and not yet known to have come to anything.
    launched: Vec<SandboxId>,
    failures: u32,
    not_before: Timestamp,
}

/// Between two tries after launches have failed or found no room.
const SHORTEST_WAIT_MS: u64 = 1_000;
const LONGEST_WAIT_MS: u64 = 60_000;
/// Nobody has asked for so long: longer than a short command takes in a body that was waiting for it.
const QUIET_MS: u64 = 20;
const LONGEST_COURTESY_MS: u64 = 100;

impl Filling {
    fn begin(plan: PoolPlan) -> Self {
        Self { plan, launched: Vec::new(), failures: 0, not_before: Timestamp(i64::MIN) }
    }

    fn went_well(&mut self) {
        (self.failures, self.not_before) = (0, Timestamp(i64::MIN));
    }

    fn failed(&mut self, now: Timestamp) {
        let wait_ms = SHORTEST_WAIT_MS.saturating_mul(1 << self.failures.min(10)).min(LONGEST_WAIT_MS);
        self.failures += 1;
        self.not_before = now.after_ms(wait_ms);
    }
}

impl Inner {
    pub(crate) async fn keep_pooled(self: Arc<Self>) {
        let mut fillings: Vec<_> = self.config.pool.iter().cloned().map(Filling::begin).collect();
        let mut is_rush = false;
        loop {
            if let Err(error) = self.tend_pool(&mut fillings).await {
                tracing::warn!(error = &error as &dyn std::error::Error, "the pool is not tended");
            }
            let next = self.clock.now().after_ms(self.config.pool_every_ms);
            tokio::select! {
                biased;
                () = self.pool.one_is_gone.notified() => is_rush = is_rush || !self.becomes_quiet().await,
                () = self.clock.sleep_until(next) => is_rush = false,
            }
        }
    }

    /// Whoever was given a body has only begun to use it, and seldom comes alone: a replacement waits until it holds up
    /// nobody. False: they keep coming, and need it.
    async fn becomes_quiet(&self) -> bool {
        let latest = self.clock.now().after_ms(LONGEST_COURTESY_MS);
        while self.clock.now() < latest {
            let quiet = self.clock.now().after_ms(QUIET_MS);
            tokio::select! {
                biased;
                () = self.pool.one_is_gone.notified() => {}
                () = self.clock.sleep_until(quiet) => return true,
            }
        }
        false
    }

    async fn tend_pool(self: &Arc<Self>, fillings: &mut [Filling]) -> Result<(), StoreError> {
        let pooled = self.pooled().await?;
        self.give_up_what_no_plan_wants(&pooled).await;
        for filling in fillings {
            self.judge_launches(filling, &pooled).await?;
            self.fill(filling, &pooled).await?;
        }
        Ok(())
    }

    /// Every body that was not given out and is not proven gone.
    pub(crate) async fn pooled(&self) -> Result<Vec<Stored>, StoreError> {
        let (mut pooled, mut after) = (Vec::new(), None);
        loop {
            let page = self.store.list(Filter::Pooled, after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(pooled) };
            after = Some(last.id());
            pooled.extend(page.into_iter().filter_map(|row| match row {
                Row::Readable(stored) => Some(*stored),
                Row::Unreadable(_) => None,
            }));
        }
    }

    /// Only its own: another engine may have plans that this one does not know.
    async fn give_up_what_no_plan_wants(self: &Arc<Self>, pooled: &[Stored]) {
        for stored in pooled.iter().filter(|stored| stored.sandbox.owner == self.node) {
            let Some(shape) = stored.sandbox.waits_in_pool_of() else {
                continue;
            };
            let plan = self.config.pool.iter().find(|plan| plan.shape == *shape);
            let alike = pooled.iter().filter(|other| {
                let is_older = other.sandbox.id < stored.sandbox.id;
                is_older
                    && other.sandbox.owner == self.node
                    && other.sandbox.waits_in_pool_of() == Some(shape)
            });
            if plan.is_none_or(|plan| alike.count() as u64 >= plan.size) {
                self.give_up(stored.sandbox.id, Cause::Cancelled).await;
            }
        }
    }

    /// Ends a body that nobody was given. One that somebody was given meanwhile is left alone.
    pub(crate) async fn give_up(self: &Arc<Self>, id: SandboxId, cause: Cause) {
        match self.clone().apply(id, Input::Ask(Request::GiveUp { cause }), Vec::new()).await {
            Ok(()) | Err(ApplyError::Missing | ApplyError::Refused(_)) => {}
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(sandbox_id = %id, error, "a body in the pool stays for now");
            }
        }
    }

    /// Learns from what became of the bodies launched here.
    async fn judge_launches(&self, filling: &mut Filling, pooled: &[Stored]) -> Result<(), StoreError> {
        for id in std::mem::take(&mut filling.launched) {
            let known = pooled.iter().find(|stored| stored.sandbox.id == id).cloned();
            let stored = match known {
                Some(stored) => stored,
                None => match self.store.load(id).await? {
                    Some(Row::Readable(stored)) => *stored,
                    Some(Row::Unreadable(_)) | None => continue,
                },
            };
            match (&stored.sandbox.life, &stored.sandbox.lease) {
                (Life::Wanted, Lease::Live(_)) => filling.went_well(),
                (Life::Wanted, _) if stored.sandbox.pooled.is_some() => filling.launched.push(id),
                (Life::Ending { cause, .. } | Life::Ended { cause, .. }, _) if never_started(*cause) => {
                    filling.failed(self.clock.now());
                }
                (Life::Wanted | Life::Ending { .. } | Life::Ended { .. }, _) => {}
            }
        }
        Ok(())
    }

    /// A few at a time, so that whoever asks for a body of his own is not held up.
    async fn fill(self: &Arc<Self>, filling: &mut Filling, pooled: &[Stored]) -> Result<(), StoreError> {
        let PoolPlan { shape, size, .. } = &filling.plan;
        let waiting = pooled.iter().filter(|stored| stored.sandbox.waits_in_pool_of() == Some(shape));
        let starting = waiting.clone().filter(|stored| !matches!(stored.sandbox.lease, Lease::Live(_)));
        let missing = size.saturating_sub(waiting.count() as u64);
        let places = (self.config.pool_launches as u64).saturating_sub(starting.count() as u64);
        for _ in 0..missing.min(places) {
            if self.clock.now() < filling.not_before || self.pool.closed.load(Ordering::Relaxed) {
                return Ok(());
            }
            if let Err(no_room) = self.host_has_room().await {
                tracing::debug!(%no_room, "the pool waits for room on the host");
                filling.failed(self.clock.now());
                return Ok(());
            }
            match self.prepare_one(&filling.plan).await {
                Ok(id) => filling.launched.push(id),
                Err(FillError::Full) => return Ok(()),
                Err(FillError::Scarce(scarcity)) => {
                    tracing::debug!(%scarcity, "the pool waits for room");
                    filling.failed(self.clock.now());
                }
                Err(FillError::Store(error)) => return Err(error),
            }
        }
        Ok(())
    }

    async fn prepare_one(self: &Arc<Self>, plan: &PoolPlan) -> Result<SandboxId, FillError> {
        let now = self.clock.now();
        let id = SandboxId(self.ids.fresh(now));
        let policy = Arc::new(Policy {
            max_life_ms: self.config.pool_life_ms,
            ends_with_owner: false,
            ..plan.policy.clone()
        });
        let transition = create_pooled(id, plan.shape.clone(), self.context(&policy));
        let spec = Arc::new(plan.shape.spec());
        let commands = Vec::new();
        let bid = Bid::default();
        let new = NewSandbox { transition: transition.clone(), spec, policy, key: None, commands, bid };
        match self.store.fill(new, plan.size, self.config.admission).await {
            Ok(_) => {}
            Err(FillError::Store(unclear @ StoreError::Unclear { .. })) => {
                if self.store.load(id).await?.is_none() {
                    return Err(unclear.into());
                }
            }
            Err(error) => return Err(error),
        }
        self.clone().follow(transition);
        Ok(id)
    }

    /// Nobody has promised that another engine will need what waits here.
    pub(crate) async fn give_up_own(self: &Arc<Self>, until: Timestamp) -> Result<(), StoreError> {
        let pooled = self.pooled().await?;
        let own: Vec<_> = pooled.iter().filter(|stored| stored.sandbox.owner == self.node).collect();
        for stored in &own {
            self.give_up(stored.sandbox.id, Cause::Shutdown).await;
        }
        for stored in own {
            self.wait_until_out_of_pool(stored.sandbox.id, until).await;
        }
        Ok(())
    }

    /// Proven gone, given to somebody, or not to be waited for any longer.
    pub(crate) async fn wait_until_out_of_pool(&self, id: SandboxId, until: Timestamp) {
        let is_out = |stored: &Stored| (!stored.sandbox.is_in_pool()).then_some(());
        if let Err(error) = self.wait_for(id, until, is_out).await {
            tracing::debug!(sandbox_id = %id, error = &error as &dyn std::error::Error, "not waited for");
        }
    }
}

fn never_started(cause: Cause) -> bool {
    matches!(cause, Cause::StartDeadline | Cause::StartFailed | Cause::ProbeFailed)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    #[test]
    fn whoever_reaches_second_for_a_body_goes_without_at_once_and_takes_nothing_from_the_first() {
        let pool = Arc::new(Pool::default());
        let first = pool.reach_for(SandboxId(1));
        let (answers, answer) = channel();
        let others = pool.clone();

        std::thread::spawn(move || {
            let refused = [1, 2].map(|_| others.reach_for(SandboxId(1)).is_none());
            answers.send(refused)
        });

        let Ok(refused) = answer.recv_timeout(Duration::from_secs(10)) else {
            // Whoever waits for itself has the lock, and so nobody can let go.
            std::mem::forget(first);
            panic!("it waits for itself");
        };
        assert_eq!(refused, [true, true]);
        drop(first);
        assert!(pool.reach_for(SandboxId(1)).is_some());
    }
}
