//! The warm pool: instances launched and probed ahead of need. The store counts them, so several engines fill
//! one pool; each engine manages the instances it owns.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pinfold_backoff::Backoff;
use pinfold_lifecycle::{Cause, Lease, Life, Policy, Request, SandboxId, Shape, Timestamp, create_pooled};
use pinfold_store::{AdmissionTerms, FillError, NewSandbox, Row, SandboxFilter, StoreError, StoredSandbox};
use tokio::sync::Notify;

use crate::ApplyError;
use crate::apply::Input;
use crate::engine::{Inner, PAGE};

/// Keeps `size` instances of one shape ready.
#[derive(Debug, Clone)]
pub struct PoolPlan {
    pub shape: Shape,
    /// Policy of the instances while in the pool. Their maximum life is [`crate::Config::pool_life_ms`].
    pub policy: Policy,
    pub size: u64,
}

/// Shared pool state of one engine.
#[derive(Default)]
pub(crate) struct Pool {
    closed: AtomicBool,
    refill_needed: Notify,
    /// Instances being claimed by requests of this engine, so that concurrent requests try different ones.
    claiming: Mutex<BTreeSet<SandboxId>>,
}

impl Pool {
    /// Stops filling the pool.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn refill(&self) {
        self.refill_needed.notify_one();
    }

    fn claiming(&self) -> MutexGuard<'_, BTreeSet<SandboxId>> {
        self.claiming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// None: another request of this engine is claiming it.
    pub(crate) fn reserve(&self, id: SandboxId) -> Option<Reservation<'_>> {
        // Construct it only after the insert and outside the lock: dropping a `Reservation` takes the lock.
        let is_first = self.claiming().insert(id);
        is_first.then(|| Reservation { pool: self, id })
    }
}

pub(crate) struct Reservation<'a> {
    pool: &'a Pool,
    id: SandboxId,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.pool.claiming().remove(&self.id);
    }
}

/// Progress of filling one plan.
struct FillState {
    plan: PoolPlan,
    /// Launched here, result not yet found.
    launched: Vec<SandboxId>,
    backoff: Backoff,
    not_before: Timestamp,
}

/// Backoff after launches that failed or found no room.
const LAUNCH_BACKOFF: Backoff = Backoff::from_ms(1_000, 60_000);
/// The pool counts as quiet after this long without a claim: longer than a short command takes in a pooled
/// instance.
const QUIET_MS: u64 = 20;
const MAX_QUIET_WAIT_MS: u64 = 100;

impl FillState {
    fn begin(plan: PoolPlan) -> Self {
        Self { plan, launched: Vec::new(), backoff: LAUNCH_BACKOFF, not_before: Timestamp(i64::MIN) }
    }

    fn record_success(&mut self) {
        self.backoff.reset();
        self.not_before = Timestamp(i64::MIN);
    }

    fn failed(&mut self, now: Timestamp) {
        self.not_before = now.after_ms(self.backoff.next_pause_ms());
    }
}

impl Inner {
    pub(crate) async fn pool_loop(self: Arc<Self>) {
        let mut fill_states: Vec<_> = self.config.pool.iter().cloned().map(FillState::begin).collect();
        let mut is_busy = false;
        loop {
            if let Err(error) = self.update_pool(&mut fill_states).await {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "updating the pool failed, retrying"
                );
            }
            let next = self.clock.now().after_ms(self.config.pool_every_ms);
            tokio::select! {
                biased;
                () = self.pool.refill_needed.notified() => is_busy = is_busy || !self.wait_for_quiet().await,
                () = self.clock.sleep_until(next) => is_busy = false,
            }
        }
    }

    /// Delays the refill after a claim, so that a launch does not slow the command that claimed the instance.
    /// False: claims keep coming and the pool is needed.
    async fn wait_for_quiet(&self) -> bool {
        let latest = self.clock.now().after_ms(MAX_QUIET_WAIT_MS);
        while self.clock.now() < latest {
            let quiet = self.clock.now().after_ms(QUIET_MS);
            tokio::select! {
                biased;
                () = self.pool.refill_needed.notified() => {}
                () = self.clock.sleep_until(quiet) => return true,
            }
        }
        false
    }

    async fn update_pool(self: &Arc<Self>, fill_states: &mut [FillState]) -> Result<(), StoreError> {
        let pooled = self.pooled().await?;
        self.discard_unplanned(&pooled).await;
        for fill_state in fill_states {
            self.record_launch_results(fill_state, &pooled).await?;
            self.fill(fill_state, &pooled).await?;
        }
        Ok(())
    }

    /// All unclaimed pooled sandboxes that are not proven gone.
    pub(crate) async fn pooled(&self) -> Result<Vec<StoredSandbox>, StoreError> {
        let (mut pooled, mut after) = (Vec::new(), None);
        loop {
            let page = self.store.list(SandboxFilter::Pooled, after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(pooled) };
            after = Some(last.id());
            pooled.extend(page.into_iter().filter_map(|row| match row {
                Row::Readable(stored) => Some(*stored),
                Row::Unreadable(_) => None,
            }));
        }
    }

    /// Discards own pooled instances that exceed every plan. Other engines may have plans unknown here.
    async fn discard_unplanned(self: &Arc<Self>, pooled: &[StoredSandbox]) {
        for stored in pooled.iter().filter(|stored| stored.sandbox.owner == self.node) {
            let Some(shape) = stored.sandbox.pool_shape() else {
                continue;
            };
            let plan = self.config.pool.iter().find(|plan| plan.shape == *shape);
            let alike = pooled.iter().filter(|other| {
                let is_older = other.sandbox.id < stored.sandbox.id;
                is_older && other.sandbox.owner == self.node && other.sandbox.pool_shape() == Some(shape)
            });
            if plan.is_none_or(|plan| alike.count() as u64 >= plan.size) {
                self.discard_pooled(stored.sandbox.id, Cause::Cancelled).await;
            }
        }
    }

    /// Ends a pooled instance, unless it was claimed meanwhile.
    pub(crate) async fn discard_pooled(self: &Arc<Self>, id: SandboxId, cause: Cause) {
        match self.clone().apply(id, Input::Request(Request::DiscardPooled { cause }), Vec::new()).await {
            Ok(()) | Err(ApplyError::Missing | ApplyError::Refused(_)) => {}
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(sandbox_id = %id, error, "could not discard a pooled instance, retrying later");
            }
        }
    }

    /// Updates the backoff from the results of earlier launches.
    async fn record_launch_results(
        &self,
        fill_state: &mut FillState,
        pooled: &[StoredSandbox],
    ) -> Result<(), StoreError> {
        for id in std::mem::take(&mut fill_state.launched) {
            let found = pooled.iter().find(|stored| stored.sandbox.id == id).cloned();
            let stored = match found {
                Some(stored) => stored,
                None => match self.store.load(id).await? {
                    Some(Row::Readable(stored)) => *stored,
                    Some(Row::Unreadable(_)) | None => continue,
                },
            };
            match (&stored.sandbox.life, &stored.sandbox.lease) {
                (Life::Wanted, Lease::Live(_)) => fill_state.record_success(),
                (Life::Wanted, _) if stored.sandbox.pooled.is_some() => fill_state.launched.push(id),
                (Life::Ending { cause, .. } | Life::Ended { cause, .. }, _) if never_started(*cause) => {
                    fill_state.failed(self.clock.now());
                }
                (Life::Wanted | Life::Ending { .. } | Life::Ended { .. }, _) => {}
            }
        }
        Ok(())
    }

    /// Launches missing instances, a few at a time, so that create requests are not slowed.
    async fn fill(
        self: &Arc<Self>,
        fill_state: &mut FillState,
        pooled: &[StoredSandbox],
    ) -> Result<(), StoreError> {
        let PoolPlan { shape, size, .. } = &fill_state.plan;
        let waiting = pooled.iter().filter(|stored| stored.sandbox.pool_shape() == Some(shape));
        let starting = waiting.clone().filter(|stored| !matches!(stored.sandbox.lease, Lease::Live(_)));
        let missing = size.saturating_sub(waiting.count() as u64);
        let free_slots = (self.config.pool_launches as u64).saturating_sub(starting.count() as u64);
        for _ in 0..missing.min(free_slots) {
            if self.clock.now() < fill_state.not_before || self.pool.closed.load(Ordering::Relaxed) {
                return Ok(());
            }
            if let Err(no_room) = self.host_has_room().await {
                tracing::debug!(%no_room, "pool refill postponed: no room on the host");
                fill_state.failed(self.clock.now());
                return Ok(());
            }
            match self.launch_pooled(&fill_state.plan).await {
                Ok(id) => fill_state.launched.push(id),
                Err(FillError::Full) => return Ok(()),
                Err(FillError::AdmissionRefused(scarcity)) => {
                    tracing::debug!(%scarcity, "pool refill postponed: admission limit reached");
                    fill_state.failed(self.clock.now());
                }
                Err(FillError::Store(error)) => return Err(error),
            }
        }
        Ok(())
    }

    async fn launch_pooled(self: &Arc<Self>, plan: &PoolPlan) -> Result<SandboxId, FillError> {
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
        let bid = AdmissionTerms::default();
        let new =
            NewSandbox { transition: transition.clone(), spec, policy, key: None, commands, admission: bid };
        match self.store.fill_pool(new, plan.size, self.config.admission).await {
            Ok(_) => {}
            Err(FillError::Store(unknown @ StoreError::OutcomeUnknown { .. })) => {
                if self.store.load(id).await?.is_none() {
                    return Err(unknown.into());
                }
            }
            Err(error) => return Err(error),
        }
        self.clone().after_commit(transition);
        Ok(id)
    }

    /// Waits until a sandbox has left the pool (gone or claimed), or until the deadline.
    pub(crate) async fn wait_until_out_of_pool(&self, id: SandboxId, until: Timestamp) {
        let is_out = |stored: &StoredSandbox| (!stored.sandbox.is_in_pool()).then_some(());
        if let Err(error) = self.wait_for(id, until, is_out).await {
            tracing::debug!(sandbox_id = %id, error = &error as &dyn std::error::Error, "waiting for a pooled instance to leave failed");
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
    fn a_second_reservation_fails_at_once_and_leaves_the_first_intact() {
        let pool = Arc::new(Pool::default());
        let first = pool.reserve(SandboxId(1));
        let (answers, answer) = channel();
        let others = pool.clone();

        std::thread::spawn(move || {
            let refused = [1, 2].map(|_| others.reserve(SandboxId(1)).is_none());
            answers.send(refused)
        });

        let Ok(refused) = answer.recv_timeout(Duration::from_secs(10)) else {
            // The thread deadlocked on the pool's lock, so dropping `first` would block too.
            std::mem::forget(first);
            panic!("reserve deadlocked");
        };
        assert_eq!(refused, [true, true]);
        drop(first);
        assert!(pool.reserve(SandboxId(1)).is_some());
    }
}
