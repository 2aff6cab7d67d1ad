//! Batching of stops: when many instances stop at once, all are killed before any is removed. Their work stops
//! sooner, and removing a cgroup costs the kernel less once the file systems of the dead instances are unmounted.

use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::time::timeout;

/// Maximum number of concurrent kills. More would slow each other down.
const MAX_CONCURRENT_KILLS: usize = 64;
/// Up to this number of pending kills no batching takes place.
const BATCH_THRESHOLD: usize = 8;
/// How long a killed instance waits for the others. A process that does not die must not hold up the rest.
const MAX_WAIT: Duration = Duration::from_secs(1);

pub(crate) struct KillBatcher {
    kills: Semaphore,
    removals: Semaphore,
    /// Number of registered kills that are not finished.
    pending: watch::Sender<usize>,
}

impl KillBatcher {
    /// The kernel removes cgroups one after the other, so more workers than cores only wait for each other.
    pub(crate) fn on_this_host() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            kills: Semaphore::new(MAX_CONCURRENT_KILLS),
            removals: Semaphore::new(2 * cores),
            pending: watch::Sender::new(0),
        }
    }

    /// Registers one kill.
    pub(crate) fn register(&self) -> PendingKill<'_> {
        // An increase wakes no waiter: they wait for the number to fall.
        let mut pending = 0;
        self.pending.send_if_modified(|count| {
            *count += 1;
            pending = *count;
            false
        });
        PendingKill { batcher: self, is_batched: pending > BATCH_THRESHOLD }
    }
}

/// A registered kill; dropping it ends the registration.
pub(crate) struct PendingKill<'a> {
    batcher: &'a KillBatcher,
    /// Whether it takes part in a batch. Otherwise it waits for no other.
    pub(crate) is_batched: bool,
}

impl<'a> PendingKill<'a> {
    /// Runs the kill once a permit is free.
    pub(crate) async fn kill<T>(&self, work: impl Future<Output = T>) -> T {
        let _permit = self.batcher.kills.acquire().await;
        work.await
    }

    /// Waits until removal may begin: at once and still registered, or after the others are dead.
    pub(crate) async fn wait_for_removal(self) -> (Option<Self>, Option<SemaphorePermit<'a>>) {
        if !self.is_batched {
            return (Some(self), None);
        }
        let batcher = self.batcher;
        drop(self);
        let mut pending = batcher.pending.subscribe();
        let _either_is_enough =
            timeout(MAX_WAIT, pending.wait_for(|pending| *pending <= BATCH_THRESHOLD)).await.is_ok();
        (None, batcher.removals.acquire().await.ok())
    }
}

impl Drop for PendingKill<'_> {
    fn drop(&mut self) {
        self.batcher.pending.send_if_modified(|pending| {
            *pending -= 1;
            *pending == BATCH_THRESHOLD
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_instance_of_a_batch_is_removed_while_many_are_alive() {
        let (batcher, dead) = (Arc::new(KillBatcher::on_this_host()), Arc::new(AtomicUsize::new(0)));
        let death = Arc::new(Notify::new());
        let stops: Vec<_> = (0..3 * MAX_CONCURRENT_KILLS)
            .map(|_| {
                let (batcher, dead, death) = (batcher.clone(), dead.clone(), death.clone());
                tokio::spawn(async move {
                    let pending = batcher.register();
                    let is_batched = pending.is_batched;
                    pending.kill(death.notified()).await;
                    dead.fetch_add(1, Ordering::Relaxed);
                    let _removal_permit = pending.wait_for_removal().await;
                    (is_batched, dead.load(Ordering::Relaxed))
                })
            })
            .collect();

        for _ in 0..3 * MAX_CONCURRENT_KILLS {
            tokio::task::yield_now().await;
            death.notify_one();
        }

        let mut waited = 0;
        for stop in stops {
            let (is_batched, dead_by_then) = stop.await.unwrap();
            assert!(
                !is_batched || dead_by_then >= 3 * MAX_CONCURRENT_KILLS - BATCH_THRESHOLD,
                "{dead_by_then}"
            );
            waited += usize::from(is_batched);
        }
        assert_eq!(waited, 3 * MAX_CONCURRENT_KILLS - BATCH_THRESHOLD);
    }

    #[tokio::test(start_paused = true)]
    async fn processes_that_do_not_die_delay_others_by_a_bounded_time() {
        let batcher = Arc::new(KillBatcher::on_this_host());
        let undying = |_| {
            let batcher = batcher.clone();
            tokio::spawn(async move { batcher.register().kill(std::future::pending::<()>()).await })
        };
        let undying: Vec<_> = (0..2 * BATCH_THRESHOLD).map(undying).collect();
        tokio::task::yield_now().await;

        let dead = batcher.register();
        assert!(dead.is_batched);
        let (_, permit) = timeout(2 * MAX_WAIT, dead.wait_for_removal()).await.unwrap();

        assert!(permit.is_some());
        undying.iter().for_each(tokio::task::JoinHandle::abort);
    }

    #[tokio::test(start_paused = true)]
    async fn a_single_stop_does_not_wait() {
        let batcher = KillBatcher::on_this_host();
        batcher.removals.forget_permits(usize::MAX);

        let (still_registered, _) = timeout(MAX_WAIT, batcher.register().wait_for_removal()).await.unwrap();

        assert!(still_registered.is_some());
    }
}
