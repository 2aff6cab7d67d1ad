//! A store that takes its time: half of it before it does what it was asked, and half before it says so.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[derive(Default)]
pub(crate) struct Slowness {
    ms: AtomicU64,
}

impl Slowness {
    /// For each call that is yet to come.
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
