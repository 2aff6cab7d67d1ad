//! The time of spans: the engine's clock, with all the digits that lie between two of its milliseconds.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pinfold_lifecycle::Timestamp;
use tokio::time::Instant;

#[derive(Debug, Clone, Copy)]
pub(super) struct SpanClock {
    zero: SystemTime,
    began: Instant,
}

const MILLISECOND: Duration = Duration::from_millis(1);

impl SpanClock {
    pub(super) fn set_to(now: Timestamp) -> Self {
        Self { zero: moment(now), began: Instant::now() }
    }

    pub(super) fn now(&self) -> SystemTime {
        self.zero + self.began.elapsed()
    }

    /// The end of that millisecond, or now: so that nothing begins before what it is part of.
    pub(super) fn end_of(&self, at: Timestamp) -> SystemTime {
        (moment(at) + MILLISECOND).min(self.now())
    }
}

fn moment(at: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(at.0).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_was_decided_a_moment_ago_is_not_before_what_began_a_moment_before() {
        let clock = SpanClock::set_to(Timestamp(1_000));
        tokio::time::advance(Duration::from_micros(2_700)).await;
        let began = clock.now();

        // By a clock that leaves out what is less than a millisecond.
        let decided = clock.end_of(Timestamp(1_002));

        assert_eq!(began, UNIX_EPOCH + Duration::from_micros(1_002_700));
        assert!(decided >= began && decided <= clock.now());
        assert_eq!(clock.end_of(Timestamp(1_000)), UNIX_EPOCH + Duration::from_millis(1_001));
    }
}
