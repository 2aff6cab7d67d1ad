//! The async runtimes of commands and of servers.

use std::process::ExitCode;
use std::sync::RwLock;
use std::thread;

use crate::failure::Failure;
use crate::heap;

/// Threads that the smallest command needs: two workers, the store's, and one for blocking calls.
const LEAST_THREADS: usize = 6;
/// Enough for a thread that only waits.
const PROBE_STACK: usize = 64 * 1024;

pub(crate) fn run_in_runtime(
    work: impl Future<Output = anyhow::Result<ExitCode>>,
) -> anyhow::Result<ExitCode> {
    check_threads(LEAST_THREADS)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(work)
}

/// Uses one thread per core, at a higher scheduling priority than sandboxes.
pub(crate) fn run_in_server_runtime(
    work: impl Future<Output = anyhow::Result<ExitCode>>,
) -> anyhow::Result<ExitCode> {
    check_threads(LEAST_THREADS + thread::available_parallelism().map_or(1, usize::from))?;
    pinfold_keeper::priority::raise_if_session_leader();
    heap::limit_arenas();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.thread_keep_alive(heap::THREAD_KEEP_ALIVE).enable_all().build()?.block_on(async {
        tokio::select! {
            biased;
            outcome = work => outcome,
            never = heap::trim_loop() => match never {},
        }
    })
}

/// Starts as many threads at once as this program needs, because the runtime panics when it gets none.
fn check_threads(count: usize) -> Result<(), Failure> {
    let all_started = RwLock::new(());
    thread::scope(|scope| {
        // Each thread lives until this is dropped.
        let hold = all_started.write();
        let start = |_| {
            let wait = || drop(all_started.read());
            thread::Builder::new().stack_size(PROBE_STACK).spawn_scoped(scope, wait)
        };
        let started: Result<Vec<_>, _> = (0..count).map(start).collect();
        drop(hold);
        started.map(drop).map_err(|source| Failure::NoThreads { count, source })
    })
}
