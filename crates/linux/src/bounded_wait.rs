//! Short, growing pauses while waiting for the kernel, up to a time limit. They block the thread.

use std::thread;
use std::time::{Duration, Instant};

use pinfold_backoff::Backoff;

/// One process is gone 0.1 ms after SIGKILL, a thousand after 30 ms. `poll` on `cgroup.events` would take 10 ms in
/// both cases: the kernel limits the rate of these notifications.
const PAUSES: Backoff = Backoff::new(Duration::from_micros(20), Duration::from_millis(2)).growing_by_half();

#[derive(Debug)]
pub(crate) struct BoundedWait {
    started: Instant,
    within: Duration,
    backoff: Backoff,
}

impl BoundedWait {
    pub(crate) fn new(within: Duration) -> Self {
        Self { started: now(), within, backoff: PAUSES }
    }

    /// Sleeps for the next pause, or reports that the time limit has passed.
    pub(crate) fn pause(&mut self) -> Result<(), TimedOut> {
        let left = self.within.saturating_sub(now().duration_since(self.started));
        if left.is_zero() {
            return Err(TimedOut);
        }
        thread::sleep(self.backoff.next_pause().min(left));
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct TimedOut;

#[allow(
    clippy::disallowed_methods,
    reason = "bounds a wait for the kernel; nothing is decided or recorded by it"
)]
fn now() -> Instant {
    Instant::now()
}
