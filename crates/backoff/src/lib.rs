//! Growing pauses between attempts or polls. Pure: the caller sleeps, or writes the time of the next attempt down.

use core::time::Duration;

/// Pauses that start with the first, grow by a factor (two unless told otherwise) and stay at the longest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    growth: Growth,
    next: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Growth {
    Double,
    ByHalf,
}

impl Backoff {
    #[must_use]
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, growth: Growth::Double, next: first }
    }

    #[must_use]
    pub const fn from_ms(first_ms: u64, longest_ms: u64) -> Self {
        Self::new(Duration::from_millis(first_ms), Duration::from_millis(longest_ms))
    }

    /// Each pause is one and a half times the one before.
    #[must_use]
    pub const fn growing_by_half(mut self) -> Self {
        self.growth = Growth::ByHalf;
        self
    }

    /// The pause before the next attempt. The one after it is longer.
    pub fn next_pause(&mut self) -> Duration {
        let pause = self.next.min(self.longest);
        self.next = self.grow(pause);
        pause
    }

    pub fn next_pause_ms(&mut self) -> u64 {
        as_ms(self.next_pause())
    }

    /// After a success the next pause is the first again.
    pub fn reset(&mut self) {
        self.next = self.first;
    }

    /// The pause after this many attempts, whatever pauses were taken from `self`.
    #[must_use]
    pub fn pause_after(&self, attempts: u32) -> Duration {
        let mut pause = self.first.min(self.longest);
        for _ in 1..attempts {
            if pause == self.longest || pause.is_zero() {
                break;
            }
            pause = self.grow(pause);
        }
        pause
    }

    #[must_use]
    pub fn pause_ms_after(&self, attempts: u32) -> u64 {
        as_ms(self.pause_after(attempts))
    }

    fn grow(&self, pause: Duration) -> Duration {
        let grown = match self.growth {
            Growth::Double => pause.saturating_mul(2),
            Growth::ByHalf => pause.saturating_add(pause / 2),
        };
        grown.min(self.longest)
    }
}

fn as_ms(pause: Duration) -> u64 {
    u64::try_from(pause.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_again_after_a_reset() {
        let mut backoff = Backoff::from_ms(50, 300);

        let pauses: Vec<_> = (0..5).map(|_| backoff.next_pause_ms()).collect();
        backoff.reset();

        assert_eq!(pauses, [50, 100, 200, 300, 300]);
        assert_eq!(backoff.next_pause_ms(), 50);
    }

    #[test]
    fn the_pause_after_a_number_of_attempts_is_the_one_taken_then() {
        for backoff in [Backoff::from_ms(7, 1_000), Backoff::from_ms(7, 1_000).growing_by_half()] {
            let mut taken = backoff;
            for attempts in 1..40 {
                assert_eq!(backoff.pause_after(attempts), taken.next_pause(), "{attempts}");
            }
            assert_eq!(taken.pause_after(1), backoff.pause_after(0));
        }
    }

    #[test]
    fn growth_by_half_is_slower() {
        let mut backoff = Backoff::from_ms(4, 12).growing_by_half();

        let pauses: Vec<_> = (0..5).map(|_| backoff.next_pause_ms()).collect();

        assert_eq!(pauses, [4, 6, 9, 12, 12]);
    }

    #[test]
    fn a_first_pause_beyond_the_longest_is_cut() {
        let mut backoff = Backoff::from_ms(90, 30);

        assert_eq!(backoff.pause_ms_after(1), 30);
        assert_eq!([backoff.next_pause_ms(), backoff.next_pause_ms()], [30, 30]);
    }

    #[test]
    fn extremes_neither_overflow_nor_take_long() {
        assert_eq!(Backoff::from_ms(0, 10).pause_ms_after(u32::MAX), 0);
        assert_eq!(Backoff::from_ms(1, u64::MAX).pause_ms_after(u32::MAX), u64::MAX);
        assert_eq!(Backoff::from_ms(u64::MAX, u64::MAX).pause_ms_after(2), u64::MAX);
    }
}
