//! How long something may take, in real time.

use std::time::{Duration, Instant};

/// Between two looks at something that is not so yet.
const LOOK_EVERY: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "a judge of real processes takes real time")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Patience {
    since: Stopwatch,
    of: Duration,
}

impl Patience {
    #[must_use]
    pub fn of(of: Duration) -> Self {
        Self { since: Stopwatch::start(), of }
    }

    #[must_use]
    pub fn left(&self) -> Duration {
        self.of.saturating_sub(self.since.elapsed())
    }

    /// Asks again and again, until the answer is there or there is no more time.
    pub fn until<T>(&self, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        loop {
            if let Some(found) = look() {
                return Some(found);
            }
            if self.left().is_zero() {
                return None;
            }
            std::thread::sleep(LOOK_EVERY.min(self.left()));
        }
    }

    /// The complaints of the last look: none as soon as one look has none.
    pub fn until_none<T>(&self, mut look: impl FnMut() -> Vec<T>) -> Vec<T> {
        loop {
            let complaints = look();
            if complaints.is_empty() || self.left().is_zero() {
                return complaints;
            }
            std::thread::sleep(LOOK_EVERY.min(self.left()));
        }
    }
}
