//! Where a server's memory comes from, and that it goes back.
//!
//! Its calls wander over many threads. The C library would give these eight heaps for every processor, each of which
//! keeps the most that it ever needed: half an hour goes by until the last of them has stopped growing, and what a busy
//! minute took is never seen again.

use std::convert::Infallible;
use std::time::Duration;

pub(crate) use library::share_among_threads;

/// How long a thread that helped out waits for more. They take turns, so that none of those that a busy moment has called
/// for would ever be idle for longer, and each has a stack.
pub(crate) const SPARE_THREAD: Duration = Duration::from_millis(100);
/// It holds up whoever needs memory at that moment, for a millisecond or so.
const GIVE_BACK_EVERY: Duration = Duration::from_secs(30);

pub(crate) async fn give_back_at_intervals() -> Infallible {
    loop {
        tokio::time::sleep(GIVE_BACK_EVERY).await;
        let _only_when_it_ends = tokio::task::spawn_blocking(library::give_back).await;
    }
}

#[cfg(target_env = "gnu")]
#[allow(unsafe_code, reason = "the C library's own interface")]
mod library {
    use std::thread::available_parallelism;

    /// More would serve nobody faster than the store's one writer does.
    const MOST: usize = 16;

    /// One for each that can ask at the same moment.
    pub(crate) fn share_among_threads() {
        let heaps = available_parallelism().map_or(1, usize::from).min(MOST);
        if let Ok(heaps) = libc::c_int::try_from(heaps) {
            // SAFETY: it takes two numbers, and nothing that was given out before is touched.
            let _as_before = unsafe { libc::mallopt(libc::M_ARENA_MAX, heaps) };
        }
    }

    pub(super) fn give_back() {
        // SAFETY: only what is free goes back.
        let _whether_any = unsafe { libc::malloc_trim(0) };
    }
}

#[cfg(not(target_env = "gnu"))]
mod library {
    pub(crate) fn share_among_threads() {}

    pub(super) fn give_back() {}
}
