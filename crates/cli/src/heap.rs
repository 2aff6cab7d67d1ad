//! Allocator settings of a server: few arenas, and free memory returned to the kernel.
//!
//! Requests run on many threads. By default glibc uses up to eight arenas per core, and each keeps its peak size: memory
//! use keeps growing for half an hour, and a busy minute is never given back.

use std::convert::Infallible;
use std::time::Duration;

pub(crate) use glibc::limit_arenas;

/// How long an idle blocking thread is kept. Tokio hands work to these threads in turn, so with a longer time none of
/// those started in a busy moment would ever end, and each keeps its stack.
pub(crate) const THREAD_KEEP_ALIVE: Duration = Duration::from_millis(100);
/// Trimming blocks allocations for about a millisecond.
const TRIM_INTERVAL: Duration = Duration::from_secs(30);

pub(crate) async fn trim_loop() -> Infallible {
    loop {
        tokio::time::sleep(TRIM_INTERVAL).await;
        let _ignored_at_shutdown = tokio::task::spawn_blocking(glibc::trim).await;
    }
}

#[cfg(target_env = "gnu")]
#[allow(unsafe_code, reason = "glibc allocator interface")]
mod glibc {
    use std::thread::available_parallelism;

    /// More arenas do not help: the store has a single writer.
    const MAX_ARENAS: usize = 16;

    /// One arena per core, up to the maximum.
    pub(crate) fn limit_arenas() {
        let arenas = available_parallelism().map_or(1, usize::from).min(MAX_ARENAS);
        if let Ok(arenas) = libc::c_int::try_from(arenas) {
            // SAFETY: `mallopt` takes two integers and does not touch existing allocations.
            let _ignored = unsafe { libc::mallopt(libc::M_ARENA_MAX, arenas) };
        }
    }

    pub(super) fn trim() {
        // SAFETY: `malloc_trim` releases only free memory.
        let _ignored = unsafe { libc::malloc_trim(0) };
    }
}

#[cfg(not(target_env = "gnu"))]
mod glibc {
    pub(crate) fn limit_arenas() {}

    pub(super) fn trim() {}
}
