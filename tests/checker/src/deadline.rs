//! Deadlines and stopwatches in real time.

use std::time::{Duration, Instant};

/// Time between two polls.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "a checker of real processes uses real time")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    since: Stopwatch,
    of: Duration,
}

impl Deadline {
    #[must_use]
    pub fn after(of: Duration) -> Self {
        Self { since: Stopwatch::start(), of }
    }

    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.of.saturating_sub(self.since.elapsed())
    }

    /// Polls until `check` returns a value or the deadline passes.
    pub fn poll<T>(&self, mut check: impl FnMut() -> Option<T>) -> Option<T> {
        loop {
            if let Some(found) = check() {
                return Some(found);
            }
            if self.remaining().is_zero() {
                return None;
            }
            std::thread::sleep(POLL_INTERVAL.min(self.remaining()));
        }
    }

    /// The violations of the last poll: empty as soon as one poll finds none.
    pub fn poll_until_empty<T>(&self, mut check: impl FnMut() -> Vec<T>) -> Vec<T> {
        loop {
            let violations = check();
            if violations.is_empty() || self.remaining().is_zero() {
                return violations;
            }
            std::thread::sleep(POLL_INTERVAL.min(self.remaining()));
        }
    }
}
