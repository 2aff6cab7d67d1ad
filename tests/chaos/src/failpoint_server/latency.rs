//! Injected store latency: half of it before the call, and half before its result is returned.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[derive(Default)]
pub(crate) struct InjectedLatency {
    ms: AtomicU64,
}

impl InjectedLatency {
    /// Applies to later calls.
    pub(crate) fn set(&self, ms: u64) {
        self.ms.store(ms, Ordering::Relaxed);
    }

    pub(crate) async fn around<T>(&self, work: impl Future<Output = T>) -> T {
        self.half().await;
        let done = work.await;
        self.half().await;
        done
    }

    async fn half(&self) {
        let ms = self.ms.load(Ordering::Relaxed) / 2;
        if ms > 0 {
            tokio::time::sleep(Duration::from_millis(ms)).await;
        }
    }
}
