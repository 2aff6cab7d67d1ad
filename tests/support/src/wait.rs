//! Waits for a condition, with a deadline that no passing test reaches.

use std::future::Future;
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Blocks until the condition holds.
///
/// # Panics
///
/// If it does not hold in time.
#[expect(clippy::disallowed_methods, reason = "a test of real processes takes real time")]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !holds() {
        assert!(Instant::now() < end, "timed out after {TIMEOUT:?}: {what}");
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Waits until the condition holds.
///
/// # Panics
///
/// If it does not hold in time.
pub async fn until_async(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    within(what, async {
        while !holds().await {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    })
    .await;
}

/// Waits until a value is found. Not an async closure, whose future could not be spawned: the compiler does not prove
/// it `Send` where it borrows.
///
/// # Panics
///
/// If none is found in time.
pub async fn until_some<T, Found>(what: &str, mut find: impl FnMut() -> Found) -> T
where
    Found: Future<Output = Option<T>>,
{
    within(what, async {
        loop {
            if let Some(found) = find().await {
                return found;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    })
    .await
}

/// The result of a future.
///
/// # Panics
///
/// If it is not ready in time.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(TIMEOUT, future).await;
    waited.unwrap_or_else(|_| panic!("timed out after {TIMEOUT:?}: {what}"))
}
