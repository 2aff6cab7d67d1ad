//! Waiting for a sandbox to change: woken at once by this engine, and by polling where another process acts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pinfold_lifecycle::{SandboxId, Timestamp};
use pinfold_store::{StoreError, Stored};
use tokio::sync::Notify;

use crate::engine::Inner;

/// What a wait with a deadline came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waited<T> {
    Met(T),
    DeadlinePassed,
}

#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    #[error("there is no such sandbox or execution")]
    Missing,
    #[error("its row cannot be read: {why}")]
    Unreadable { why: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Default)]
pub(crate) struct Waiters {
    bells: Mutex<BTreeMap<SandboxId, Arc<Notify>>>,
}

impl Waiters {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<SandboxId, Arc<Notify>>> {
        self.bells.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listen(&self, id: SandboxId) -> Listener<'_> {
        let bell = self.lock().entry(id).or_default().clone();
        Listener { waiters: self, id, bell }
    }

    pub(crate) fn ring(&self, id: SandboxId) {
        let bell = self.lock().get(&id).cloned();
        if let Some(bell) = bell {
            bell.notify_waiters();
        }
    }
}

/// One who waits for a sandbox's bell. The bell is taken down with its last listener.
struct Listener<'a> {
    waiters: &'a Waiters,
    id: SandboxId,
    bell: Arc<Notify>,
}

impl Drop for Listener<'_> {
    fn drop(&mut self) {
        let mut bells = self.waiters.lock();
        // One count is the map's, one is this listener's own.
        if Arc::strong_count(&self.bell) <= 2 {
            bells.remove(&self.id);
        }
    }
}

impl Inner {
    /// Waits until `met` finds what it looks for, or until the deadline.
    pub(crate) async fn wait_for<T>(
        &self,
        id: SandboxId,
        until: Timestamp,
        mut met: impl FnMut(&Stored) -> Option<T>,
    ) -> Result<Waited<T>, WaitError> {
        let listener = self.waiters.listen(id);
        let mut known = None;
        loop {
            let mut rung = std::pin::pin!(listener.bell.notified());
            rung.as_mut().enable();
            let stored = match known {
                Some(stored) => Box::new(stored),
                None => self.readable(id).await?,
            };
            if let Some(found) = met(&stored) {
                return Ok(Waited::Met(found));
            }
            let now = self.clock.now();
            if until <= now {
                return Ok(Waited::DeadlinePassed);
            }
            // The bell rings for every change that this process makes or notices; the second look is for rest.
            let look_again = now.after_ms(self.config.heartbeat_ms).min(until);
            tokio::select! {
                biased;
                // What this engine wrote after the wait began is as good as read.
                () = rung => known = self.known.get(id),
                () = self.clock.sleep_until(look_again) => known = None,
            }
        }
    }
}
