//! Time that can be moved ahead: whoever sleeps notices, and what happened before stays where it was.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pinfold_engine::{Clock, HostClock};
use pinfold_lifecycle::Timestamp;
use tokio::sync::watch;

pub(crate) struct MovedClock {
    real: HostClock,
    /// When time was moved, as the real clock shows it, and by how much in all.
    moved: watch::Sender<Vec<(Timestamp, u64)>>,
}

impl MovedClock {
    pub(crate) fn over(real: HostClock) -> Arc<Self> {
        Arc::new(Self { real, moved: watch::Sender::new(Vec::new()) })
    }

    pub(crate) fn real_now(&self) -> Timestamp {
        self.real.now()
    }

    pub(crate) fn move_by(&self, ms: u64) {
        let at = self.real.now();
        self.moved.send_modify(|moved| moved.push((at, ms)));
    }

    /// What this clock showed when the real one showed that.
    pub(crate) fn shown(&self, real: Timestamp) -> Timestamp {
        let moved = self.moved.borrow();
        real.after_ms(moved.iter().filter(|(at, _)| *at <= real).map(|(_, ms)| ms).sum())
    }
}

#[async_trait]
impl Clock for MovedClock {
    fn now(&self) -> Timestamp {
        self.shown(self.real.now())
    }

    async fn sleep_until(&self, at: Timestamp) {
        let mut moved = self.moved.subscribe();
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
