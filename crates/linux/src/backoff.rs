//! Short, growing pauses while waiting for the kernel, up to a time limit.

use std::thread;
use std::time::{Duration, Instant};

/// One process is gone 0.1 ms after SIGKILL, a thousand after 30 ms. `poll` on `cgroup.events` would take 10 ms in
/// both cases: the kernel limits the rate of these notifications.
const FIRST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub(crate) struct Backoff {
    started: Instant,
    within: Duration,
    next: Duration,
}

impl Backoff {
    pub(crate) fn with_timeout(within: Duration) -> Backoff {
        Backoff { started: now(), within, next: FIRST_PAUSE }
    }

    /// Sleeps for the next pause, or reports that the time limit has passed.
    pub(crate) fn pause(&mut self) -> Result<(), TimedOut> {
        let left = self.within.saturating_sub(now().duration_since(self.started));
        if left.is_zero() {
            return Err(TimedOut);
        }
        thread::sleep(self.next.min(left));
        self.next = (self.next * 3 / 2).min(LONGEST_PAUSE);
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
