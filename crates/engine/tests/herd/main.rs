//! Eight processes on one store for a minute, each killed and restarted at random: no update is lost, no sandbox
//! has two owners, what the dead owned is adopted, and nothing is left behind.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod aftermath;
mod member;
mod parent;

use std::path::Path;
use std::time::Duration;

use parent::Herd;

/// Not a test by itself: the other starts it as a process of its own.
#[test]
fn a_member_of_the_herd_works_where_it_is_told_to() {
    if let Some(directory) = std::env::var_os(parent::DIRECTORY) {
        member::live(Path::new(&directory));
    }
}

#[test]
fn eight_processes_that_are_killed_at_random_lose_nothing_and_leave_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let seed = std::env::var("PINFOLD_HERD_SEED").map_or(20_261_115, |seed| seed.parse().unwrap());
    println!("PINFOLD_HERD_SEED={seed}");

    let mut herd = Herd::of(8, directory.path(), seed);
    herd.be_hunted_for(Duration::from_secs(60));
    let told = herd.end();

    aftermath::check(directory.path(), &told);
}
