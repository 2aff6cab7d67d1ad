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

    /// One more that is to be killed.
    pub(crate) fn one_more(&self) -> Dying<'_> {
        // Nobody waits for more of them.
        let mut dying = 0;
        self.dying.send_if_modified(|count| {
            *count += 1;
            dying = *count;
            false
        });
        Dying { rush: self, is_among_many: dying > FEW }
    }
}

/// One that is to be killed, or on its way out.
pub(crate) struct Dying<'a> {
    rush: &'a Rush,
    /// Among few it need not wait for anybody.
    pub(crate) is_among_many: bool,
}

impl<'a> Dying<'a> {
    /// Does what ends its life, when it has a place.
    pub(crate) async fn kill<T>(&self, work: impl Future<Output = T>) -> T {
        let _place = self.rush.kills.acquire().await;
        work.await
    }

    /// Its turn to be cleared away: at once and still as one of the dying, or after the others are dead.
    pub(crate) async fn turn(self) -> (Option<Self>, Option<SemaphorePermit<'a>>) {
        if !self.is_among_many {
            return (Some(self), None);
        }
        let rush = self.rush;
        drop(self);
        let mut dying = rush.dying.subscribe();
        let _either_is_enough = timeout(WAIT, dying.wait_for(|dying| *dying <= FEW)).await.is_ok();
        (None, rush.removals.acquire().await.ok())
    }
}

impl Drop for Dying<'_> {
    fn drop(&mut self) {
        self.rush.dying.send_if_modified(|dying| {
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
                    let dying = rush.one_more();
                    let is_among_many = dying.is_among_many;
                    dying.kill(death.notified()).await;
                    dead.fetch_add(1, Ordering::Relaxed);
                    let _turn = dying.turn().await;
                    (is_among_many, dead.load(Ordering::Relaxed))
                })
            })
            .collect();

        for _ in 0..3 * KILLS {
            tokio::task::yield_now().await;
            death.notify_one();
        }

        let mut waited = 0;
        for stop in stops {
            let (is_among_many, dead_by_then) = stop.await.unwrap();
            assert!(!is_among_many || dead_by_then >= 3 * KILLS - FEW, "{dead_by_then}");
            waited += usize::from(is_among_many);
        }
        assert_eq!(waited, 3 * KILLS - FEW);
    }

    #[tokio::test(start_paused = true)]
    async fn those_that_do_not_die_hold_up_nobody_for_long() {
        let rush = Arc::new(Rush::on_this_host());
        let undying = |_| {
            let rush = rush.clone();
            tokio::spawn(async move { rush.one_more().kill(std::future::pending::<()>()).await })
        };
        let undying: Vec<_> = (0..2 * FEW).map(undying).collect();
        tokio::task::yield_now().await;

        let dead = rush.one_more();
        assert!(dead.is_among_many);
        let (_, turn) = timeout(2 * WAIT, dead.turn()).await.unwrap();

        assert!(turn.is_some());
        undying.iter().for_each(tokio::task::JoinHandle::abort);
    }

    #[tokio::test(start_paused = true)]
    async fn one_alone_waits_for_nobody() {
        let rush = Rush::on_this_host();
        rush.removals.forget_permits(usize::MAX);

        let (still_dying, _) = timeout(WAIT, rush.one_more().turn()).await.unwrap();

        assert!(still_dying.is_some());
    }
}
