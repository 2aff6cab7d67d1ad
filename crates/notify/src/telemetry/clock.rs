//! The clock of spans: the engine's clock, with sub-millisecond resolution.

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
        Self { zero: system_time(now), began: Instant::now() }
    }

    pub(super) fn now(&self) -> SystemTime {
        self.zero + self.began.elapsed()
    }

    /// The end of a millisecond of the engine's clock, or now if that is earlier, so that no span begins before its
    /// parent.
    pub(super) fn end_of(&self, at: Timestamp) -> SystemTime {
        (system_time(at) + MILLISECOND).min(self.now())
    }
}

fn system_time(at: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(at.0).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_commit_time_is_not_before_a_span_that_began_in_the_same_millisecond() {
        let clock = SpanClock::set_to(Timestamp(1_000));
        tokio::time::advance(Duration::from_micros(2_700)).await;
        let began = clock.now();

        // The engine's clock truncates to milliseconds.
        let decided = clock.end_of(Timestamp(1_002));

        assert_eq!(began, UNIX_EPOCH + Duration::from_micros(1_002_700));
        assert!(decided >= began && decided <= clock.now());
        assert_eq!(clock.end_of(Timestamp(1_000)), UNIX_EPOCH + Duration::from_millis(1_001));
    }
}
