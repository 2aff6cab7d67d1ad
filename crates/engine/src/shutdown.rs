//! Orderly shutdown of a node: stops what must not outlive it, and reports what is not proven gone.

use pinfold_lifecycle::{Cause, Request, Sandbox, SandboxId, Timestamp};
use pinfold_store::{Row, SandboxFilter, StoreError, StoredSandbox};

use crate::engine::{Engine, PAGE};
use crate::{ApplyError, WaitError};

/// What happens to live sandboxes when their engine shuts down. Unclaimed pooled instances end in either case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnExit {
    /// The next engine adopts them.
    Keep,
    Stop,
}

impl Engine {
    /// Shuts this node down: stops its pooled instances, and with [`OnExit::Stop`] also its sandboxes, waiting up to
    /// `wait_ms`. Returns those not proven gone, which the next engine continues to stop.
    pub async fn shutdown(&self, on_exit: OnExit, wait_ms: u64) -> Result<Vec<SandboxId>, ApplyError> {
        let until = self.inner.clock.now().after_ms(wait_ms);
        self.inner.pool.close();
        self.stop_own(on_exit, until).await?;
        // A write after unregistering would belong to no node.
        self.inner.effect_tasks.end_all().await;
        // Listed last: no task is left that could launch another instance.
        let left = self.own(on_exit).await?;
        self.inner.unregister().await?;
        Ok(left.iter().map(|stored| stored.sandbox.id).collect())
    }

    /// Repeats until none is left or time is up: requests may create sandboxes or claim pooled ones meanwhile.
    async fn stop_own(&self, on_exit: OnExit, until: Timestamp) -> Result<(), ApplyError> {
        loop {
            let own = self.own(on_exit).await?;
            if own.is_empty() {
                return Ok(());
            }
            for Sandbox { id, pooled, .. } in own.iter().map(|stored| &stored.sandbox) {
                if pooled.is_some() {
                    self.inner.discard_pooled(*id, Cause::Shutdown).await;
                    continue;
                }
                match self.request(*id, Request::Stop { cause: Cause::Shutdown, grace_ms: None }).await {
                    // Its record was deleted meanwhile.
                    Ok(()) | Err(ApplyError::Missing) => {}
                    Err(error) => return Err(error),
                }
            }
            for Sandbox { id, pooled, .. } in own.iter().map(|stored| &stored.sandbox) {
                let was_claimed = |now: &Sandbox| pooled.is_some() && now.pooled.is_none();
                let is_done = |now: &StoredSandbox| {
                    (now.sandbox.is_settled() || was_claimed(&now.sandbox)).then_some(())
                };
                match self.inner.wait_for(*id, until, is_done).await {
                    Ok(_) | Err(WaitError::Missing) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            if until <= self.inner.clock.now() {
                return Ok(());
            }
        }
    }

    /// What a shutdown of this node has to stop and is not proven gone.
    async fn own(&self, on_exit: OnExit) -> Result<Vec<StoredSandbox>, StoreError> {
        let filter = match on_exit {
            OnExit::Stop => SandboxFilter::Leased,
            OnExit::Keep => SandboxFilter::Pooled,
        };
        let (mut own, mut after) = (Vec::new(), None);
        loop {
            let page = self.inner.store.list(filter, after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(own) };
            after = Some(last.id());
            own.extend(page.into_iter().filter_map(|row| match row {
                Row::Readable(stored) if stored.sandbox.owner == self.node() => Some(*stored),
                // The owner of an unreadable row is not known.
                Row::Readable(_) | Row::Unreadable(_) => None,
            }));
        }
    }
}
