//! Waiting for a sandbox to change: woken at once by this engine, and by polling where another process acts.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
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
    bells: Mutex<BTreeMap<SandboxId, Hung>>,
    /// For whoever wants to know of every sandbox.
    all: Arc<Bell>,
}

/// A bell and how many listen to it. Whoever rings holds it too for a moment, and is no listener.
#[derive(Default)]
struct Hung {
    bell: Arc<Bell>,
    listeners: usize,
}

#[derive(Default)]
struct Bell {
    rings: AtomicU64,
    rung: Notify,
}

impl Bell {
    fn ring(&self) {
        self.rings.fetch_add(1, Ordering::Release);
        self.rung.notify_waiters();
    }
}

impl Waiters {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<SandboxId, Hung>> {
        self.bells.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn listen(self: &Arc<Self>, id: SandboxId) -> Listener {
        let mut bells = self.lock();
        let hung = bells.entry(id).or_default();
        hung.listeners += 1;
        Listener::to(hung.bell.clone(), Some((self.clone(), id)))
    }

    pub(crate) fn listen_to_all(&self) -> Listener {
        Listener::to(self.all.clone(), None)
    }

    pub(crate) fn ring(&self, id: SandboxId) {
        let bell = self.lock().get(&id).map(|hung| hung.bell.clone());
        if let Some(bell) = bell {
            bell.ring();
        }
        self.all.ring();
    }
}

/// Hears of every change to a sandbox that this process makes or notices. What rings while nobody waits is not lost.
pub struct Listener {
    bell: Arc<Bell>,
    heard: u64,
    /// Where the bell of a single sandbox hangs. It is taken down with its last listener.
    hangs: Option<(Arc<Waiters>, SandboxId)>,
}

impl Listener {
    fn to(bell: Arc<Bell>, hangs: Option<(Arc<Waiters>, SandboxId)>) -> Self {
        let heard = bell.rings.load(Ordering::Acquire);
        Self { bell, heard, hangs }
    }

    /// Whoever is about to look sees all that was told so far.
    pub fn catch_up(&mut self) {
        self.heard = self.bell.rings.load(Ordering::Acquire);
    }

    /// Waits for a change since the last one that was heard of.
    pub async fn changed(&mut self) {
        loop {
            // It hears from here on, so that no ring is lost between the look and the wait.
            let rung = self.bell.rung.notified();
            let rings = self.bell.rings.load(Ordering::Acquire);
            if rings != self.heard {
                self.heard = rings;
                return;
            }
            rung.await;
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let Some((waiters, id)) = &self.hangs else { return };
        let mut bells = waiters.lock();
        if let Some(hung) = bells.get_mut(id) {
            hung.listeners -= 1;
            if hung.listeners == 0 {
                bells.remove(id);
            }
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
        let mut listener = self.waiters.listen(id);
        let mut known: Option<Stored> = None;
        let mut judged = None;
        loop {
            listener.catch_up();
            // What was written before may come to be known after what somebody else has made of it.
            let stored = match known.filter(|known| Some(known.version) >= judged) {
                Some(stored) => Box::new(stored),
                None => self.readable(id).await?,
            };
            judged = judged.max(Some(stored.version));
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
                () = listener.changed() => known = self.known.get(id),
                () = self.clock.sleep_until(look_again) => known = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const ONE: SandboxId = SandboxId(1);
    const OTHER: SandboxId = SandboxId(2);

    #[test]
    fn a_listener_hears_what_rang_before_it_waited_and_only_once() {
        let waiters = Arc::new(Waiters::default());
        let (mut of_one, mut of_other) = (waiters.listen(ONE), waiters.listen(OTHER));
        let mut of_all = waiters.listen_to_all();

        waiters.ring(ONE);

        assert!(of_one.changed().now_or_never().is_some());
        assert!(of_all.changed().now_or_never().is_some());
        assert!(of_one.changed().now_or_never().is_none(), "it rang once");
        assert!(of_other.changed().now_or_never().is_none(), "it rang for another");
        waiters.ring(ONE);
        of_one.catch_up();
        assert!(of_one.changed().now_or_never().is_none(), "whoever looks after it has seen it");
    }

    #[test]
    fn a_bell_is_taken_down_with_its_last_listener() {
        let waiters = Arc::new(Waiters::default());
        let (one, other) = (waiters.listen(ONE), waiters.listen(ONE));

        drop(one);
        assert_eq!(waiters.lock().len(), 1);
        drop(other);

        assert!(waiters.lock().is_empty());
    }

    #[test]
    fn a_bell_is_taken_down_also_while_somebody_rings_it() {
        let waiters = Arc::new(Waiters::default());
        let listener = waiters.listen(ONE);
        let rings_still = listener.bell.clone();

        drop(listener);
        drop(rings_still);

        assert!(waiters.lock().is_empty());
    }
}
