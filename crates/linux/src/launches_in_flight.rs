//! Launches of this process that are in flight. A cancelled launch runs on to its next await point and may create its
//! control directory before that. So a stop waits for it first: otherwise it would prove the absence of an instance
//! that appears afterwards.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pinfold_lifecycle::SandboxId;
use tokio::sync::Notify;

/// Far longer than a launch runs between two await points. A stuck launch must not keep its sandbox alive.
const MAX_WAIT: Duration = Duration::from_secs(10);

#[derive(Clone, Default)]
pub(crate) struct LaunchesInFlight {
    counters: Arc<Counters>,
}

#[derive(Default)]
struct Counters {
    counts: Mutex<BTreeMap<SandboxId, usize>>,
    launch_ended: Notify,
}

impl Counters {
    fn counts(&self) -> MutexGuard<'_, BTreeMap<SandboxId, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Marks one launch as in flight until all clones are dropped.
pub(crate) struct LaunchGuard {
    counters: Arc<Counters>,
    sandbox: SandboxId,
}

impl LaunchesInFlight {
    pub(crate) fn begin(&self, sandbox: SandboxId) -> Arc<LaunchGuard> {
        *self.counters.counts().entry(sandbox).or_default() += 1;
        Arc::new(LaunchGuard { counters: self.counters.clone(), sandbox })
    }

    /// Waits until no launch of this sandbox is in flight.
    pub(crate) async fn wait_until_none(&self, sandbox: SandboxId) {
        let none_left = async {
            loop {
                // Subscribe before checking, so that no notification is missed in between.
                let ended = self.counters.launch_ended.notified();
                if !self.counters.counts().contains_key(&sandbox) {
                    return;
                }
                ended.await;
            }
        };
        // After the timeout, later leftovers are found by their control directory.
        let _ = tokio::time::timeout(MAX_WAIT, none_left).await;
    }
}

impl Drop for LaunchGuard {
    fn drop(&mut self) {
        let mut counts = self.counters.counts();
        if let Some(count) = counts.get_mut(&self.sandbox) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.sandbox);
            }
        }
        drop(counts);
        self.counters.launch_ended.notify_waiters();
    }
}
