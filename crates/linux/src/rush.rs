//! When many bodies end at once, all of them are killed before what they leave is cleared away. So whatever they did
//! stops first. And to take a group away costs the kernel more the more filesystems are mounted on the host: those of
//! the dead are not any more.

use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::time::timeout;

/// So many are killed at a time. More would keep each other from dying.
const KILLS: usize = 64;
/// So few that are still being killed make no difference to the others.
const FEW: usize = 8;
/// How long a dead one waits for others to die. One that does not must not hold up the rest.
const WAIT: Duration = Duration::from_secs(1);

pub(crate) struct Rush {
    kills: Semaphore,
    removals: Semaphore,
    /// How many are to be killed, or on their way out.
    dying: watch::Sender<usize>,
}

impl Rush {
    /// The kernel removes one group after the other, so that more hands than cores only wait for each other.
    pub(crate) fn on_this_host() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            kills: Semaphore::new(KILLS),
            removals: Semaphore::new(2 * cores),
            dying: watch::Sender::new(0),
        }
    }

    /// Does what ends one body's life, when it is its turn.
    pub(crate) async fn kill<T>(&self, work: impl Future<Output = T>) -> T {
        let _one = Dying::count(&self.dying);
        let _place = self.kills.acquire().await;
        work.await
    }

    /// The turn of a dead body to be cleared away.
    pub(crate) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        let mut dying = self.dying.subscribe();
        let _either_is_enough = timeout(WAIT, dying.wait_for(|dying| *dying <= FEW)).await.is_ok();
        self.removals.acquire().await.ok()
    }
}

struct Dying<'a>(&'a watch::Sender<usize>);

impl<'a> Dying<'a> {
    fn count(dying: &'a watch::Sender<usize>) -> Self {
        // Nobody waits for more of them.
        dying.send_if_modified(|dying| {
            *dying += 1;
            false
        });
        Self(dying)
    }
}

impl Drop for Dying<'_> {
    fn drop(&mut self) {
        self.0.send_if_modified(|dying| {
            *dying -= 1;
            *dying == FEW
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
    async fn nothing_is_cleared_away_while_many_are_still_alive() {
        let (rush, dead) = (Arc::new(Rush::on_this_host()), Arc::new(AtomicUsize::new(0)));
        let death = Arc::new(Notify::new());
        let stops: Vec<_> = (0..3 * KILLS)
            .map(|_| {
                let (rush, dead, death) = (rush.clone(), dead.clone(), death.clone());
                tokio::spawn(async move {
                    rush.kill(death.notified()).await;
                    dead.fetch_add(1, Ordering::Relaxed);
                    let _turn = rush.turn().await;
                    dead.load(Ordering::Relaxed)
                })
            })
            .collect();

        for _ in 0..3 * KILLS {
            tokio::task::yield_now().await;
            death.notify_one();
        }

        for stop in stops {
            assert!(stop.await.unwrap() >= 3 * KILLS - FEW);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn those_that_do_not_die_hold_up_nobody_for_long() {
        let rush = Arc::new(Rush::on_this_host());
        let undying = |_| {
            let rush = rush.clone();
            tokio::spawn(async move { rush.kill(std::future::pending::<()>()).await })
        };
        let undying: Vec<_> = (0..FEW + 1).map(undying).collect();
        tokio::task::yield_now().await;

        let turn = timeout(2 * WAIT, rush.turn()).await;

        assert!(turn.unwrap().is_some());
        undying.iter().for_each(tokio::task::JoinHandle::abort);
    }
}
