//! The launches of this very process that are under way. One that is given up goes on until it next waits for
//! something, and may leave its mark in that time. So a stop lets it come to its end before it looks: else it would
//! prove the absence of what comes only then, and nobody would look again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pinfold_lifecycle::SandboxId;
use tokio::sync::Notify;

/// Far more than a launch takes between two of its waits. One that is stuck must not keep its sandbox alive.
const LONGEST: Duration = Duration::from_secs(10);

#[derive(Clone, Default)]
pub(crate) struct UnderWay {
    launches: Arc<Launches>,
}

#[derive(Default)]
struct Launches {
    counted: Mutex<BTreeMap<SandboxId, usize>>,
    one_is_over: Notify,
}

impl Launches {
    fn counted(&self) -> MutexGuard<'_, BTreeMap<SandboxId, usize>> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// It is under way until all who have this let go of it.
pub(crate) struct Counted {
    launches: Arc<Launches>,
    sandbox: SandboxId,
}

impl UnderWay {
    pub(crate) fn begin(&self, sandbox: SandboxId) -> Arc<Counted> {
        *self.launches.counted().entry(sandbox).or_default() += 1;
        Arc::new(Counted { launches: self.launches.clone(), sandbox })
    }

    /// Waits until none is under way for this sandbox.
    pub(crate) async fn over(&self, sandbox: SandboxId) {
        let over = async {
            loop {
                // It hears from here on, so that no end is missed between the look and the wait.
                let told = self.launches.one_is_over.notified();
                if !self.launches.counted().contains_key(&sandbox) {
                    return;
                }
                told.await;
            }
        };
        // What it still makes then is found by its mark.
        let _ = tokio::time::timeout(LONGEST, over).await;
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counted = self.launches.counted();
        if let Some(count) = counted.get_mut(&self.sandbox) {
            *count -= 1;
            if *count == 0 {
                counted.remove(&self.sandbox);
            }
        }
        drop(counted);
        self.launches.one_is_over.notify_waiters();
    }
}
