//! A clock whose time can be shifted. The machine's clock is not touched.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use pinfold_engine::Clock;
use pinfold_lifecycle::Timestamp;

pub(crate) struct JumpingClock {
    pub(crate) inner: Arc<dyn Clock>,
    pub(crate) jumped_ms: Arc<AtomicI64>,
}

/// A sleeper notices a jump within this time.
const NOTICED_MS: u64 = 50;

#[async_trait]
impl Clock for JumpingClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.inner.now().0.saturating_add(self.jumped_ms.load(Ordering::Relaxed)))
    }

    async fn sleep_until(&self, at: Timestamp) {
        loop {
            let now = self.now();
            if at <= now {
                return;
            }
            tokio::time::sleep(Duration::from_millis(at.ms_since(now).min(NOTICED_MS))).await;
        }
    }
}
