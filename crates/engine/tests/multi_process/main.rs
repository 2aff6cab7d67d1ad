//! Eight processes on one store for a minute, killed and restarted at random: no update is lost, no sandbox has
//! two owners, dead processes' sandboxes are adopted, and nothing is left behind.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod final_checks;
mod parent;
mod worker;

use std::path::Path;
use std::time::Duration;

use parent::WorkerPool;

/// The body of a worker process, started by the other test. Without its environment variable it does nothing.
#[test]
fn worker_process_runs_until_killed() {
    if let Some(directory) = std::env::var_os(parent::DIRECTORY) {
        worker::live(Path::new(&directory));
    }
}

#[test]
fn eight_processes_that_are_killed_at_random_lose_nothing_and_leave_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let seed = std::env::var("PINFOLD_WORKERS_SEED").map_or(20_261_115, |seed| seed.parse().unwrap());
    println!("PINFOLD_WORKERS_SEED={seed}");

    let mut workers = WorkerPool::of(8, directory.path(), seed);
    workers.kill_at_random_for(Duration::from_secs(60));
    let reported = workers.end();

    final_checks::check(directory.path(), &reported);
}
