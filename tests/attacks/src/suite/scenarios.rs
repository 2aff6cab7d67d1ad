//! Attempts of several steps, and those that are checked from the host.

pub(crate) mod exhaustion;
pub(crate) mod files;
pub(crate) mod images;
pub(crate) mod keeper;
pub(crate) mod network;
pub(crate) mod secrets;
pub(crate) mod service;
pub(crate) mod shared_files;
pub(crate) mod stopping;

use std::time::Duration;

/// Polls until the condition holds or the time is up.
pub(crate) async fn until(timeout: Duration, mut condition: impl AsyncFnMut() -> bool) -> bool {
    let end = tokio::time::Instant::now() + timeout;
    loop {
        if condition().await {
            return true;
        }
        if tokio::time::Instant::now() >= end {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) async fn a_moment(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}
