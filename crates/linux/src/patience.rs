//! Waiting for the kernel in short and growing pauses, up to a deadline.

use std::thread;
use std::time::{Duration, Instant};

/// One process is gone 0.1 ms after its kill, a thousand after 30 ms; `poll` on `cgroup.events` would answer after
/// 10 ms in both cases, since the kernel sends such notes at most that often.
const FIRST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub(crate) struct Patience {
    started: Instant,
    within: Duration,
    next: Duration,
}

impl Patience {
    pub(crate) fn of(within: Duration) -> Patience {
        Patience { started: now(), within, next: FIRST_PAUSE }
    }

    /// Sleeps a little, or says that the time is up.
    pub(crate) fn pause(&mut self) -> Result<(), TimeIsUp> {
        let left = self.within.saturating_sub(now().duration_since(self.started));
        if left.is_zero() {
            return Err(TimeIsUp);
        }
        thread::sleep(self.next.min(left));
        self.next = (self.next * 3 / 2).min(LONGEST_PAUSE);
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct TimeIsUp;

#[allow(
    clippy::disallowed_methods,
    reason = "bounds a wait for the kernel; nothing is decided or recorded by it"
)]
fn now() -> Instant {
    Instant::now()
}
