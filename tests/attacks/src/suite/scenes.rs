//! Attempts of more than one step, and those that are judged from outside.

pub(crate) mod exhaustion;
pub(crate) mod files;
pub(crate) mod keeper;
pub(crate) mod network;
pub(crate) mod secrets;
pub(crate) mod stopping;

use std::time::Duration;

/// Looks again and again until it is so, or too late.
pub(crate) async fn until(patience: Duration, mut is_so: impl AsyncFnMut() -> bool) -> bool {
    let end = tokio::time::Instant::now() + patience;
    loop {
        if is_so().await {
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
