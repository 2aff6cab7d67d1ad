//! A clock that can be moved ahead: sleepers wake up, and earlier timestamps keep their value.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use pinfold_engine::Clock;
use pinfold_lifecycle::Timestamp;
use tokio::sync::watch;

#[derive(Default)]
pub struct ShiftedClock {
    real: OnceLock<Arc<dyn Clock>>,
    /// When the clock was advanced, by the real clock, and by how much.
    shifts: watch::Sender<Vec<(Timestamp, u64)>>,
}

impl ShiftedClock {
    /// Wraps the real clock. Only the first call counts.
    #[must_use]
    pub fn over(self: &Arc<Self>, real: Arc<dyn Clock>) -> Arc<dyn Clock> {
        self.real.get_or_init(|| real);
        self.clone()
    }

    pub fn advance(&self, ms: u64) {
        let at = self.real_now();
        self.shifts.send_modify(|moved| moved.push((at, ms)));
    }

    /// Corrects a timestamp computed as `now - age` by code that knows only the age: time that was skipped since
    /// then has to be subtracted.
    #[must_use]
    pub fn aged(&self, named: Timestamp) -> Timestamp {
        let moved_ms: u64 = self.shifts.borrow().iter().map(|(_, ms)| ms).sum();
        self.shown(Timestamp(named.0.saturating_sub_unsigned(moved_ms)))
    }

    /// What this clock showed at a real time.
    fn shown(&self, real: Timestamp) -> Timestamp {
        let moved = self.shifts.borrow();
        real.after_ms(moved.iter().filter(|(at, _)| *at <= real).map(|(_, ms)| ms).sum())
    }

    fn real_now(&self) -> Timestamp {
        self.real.get().map_or(Timestamp(0), |real| real.now())
    }
}

#[async_trait]
impl Clock for ShiftedClock {
    fn now(&self) -> Timestamp {
        self.shown(self.real_now())
    }

    async fn sleep_until(&self, at: Timestamp) {
        let mut moved = self.shifts.subscribe();
        loop {
            let now = self.now();
            if at <= now {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(at.ms_since(now))) => {}
                _ = moved.changed() => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Stopped;

    #[async_trait]
    impl Clock for Stopped {
        fn now(&self) -> Timestamp {
            Timestamp(1_000)
        }

        async fn sleep_until(&self, _: Timestamp) {}
    }

    #[test]
    fn earlier_timestamp_ages_by_the_skipped_time() {
        let clock = Arc::new(ShiftedClock::default());
        let shown = clock.over(Arc::new(Stopped));

        clock.advance(500);

        assert_eq!(shown.now(), Timestamp(1_500));
        let a_moment_ago = Timestamp(shown.now().0 - 1);
        assert_eq!(clock.aged(a_moment_ago), Timestamp(999));
        assert_eq!(clock.aged(shown.now()), Timestamp(1_500));
    }
}
