//! Work that may wait for the kernel, beside the runtime's own.

use std::io;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::{block_in_place, spawn_blocking};

/// On the caller's thread where others can take over its tasks meanwhile: to wake another thread, and to be woken by it
/// again, costs more than most of this work.
pub(crate) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => block_in_place(work),
        _ => spawn_blocking(work).await.map_err(io::Error::other).flatten(),
    }
}
