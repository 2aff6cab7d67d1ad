//! Runs blocking file-system and kernel work without stalling the async runtime.

use std::io;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::{block_in_place, spawn_blocking};

/// Runs `work` on the caller's thread where the runtime can move its other tasks away: waking another thread and
/// being woken by it costs more than most of this work.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => block_in_place(work),
        _ => spawn_blocking(work).await.map_err(io::Error::other).flatten(),
    }
}
