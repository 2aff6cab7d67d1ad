//! Kills a writing process at each of its durable calls and at random moments, injects errors into its calls, and checks
//! the store: no acknowledged commit is missing and no transaction is partly visible.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests, which say what they have seen")]

mod check;
mod child;
mod run;
mod trace;

use std::fs;
use std::path::Path;
use std::time::Duration;

use check::check;
use child::Work;
use pinfold_test_support::skip_without_strace;
use run::{Acks, ChildOutput, Running};

/// Little, since it is run once for every call that it makes.
const SHORT: Work = Work { first: 1, tasks: 3, turns: 9 };

const ENDLESS: Work = Work { first: 1, tasks: 6, turns: 100_000 };

/// Not a test by itself: the others start it as a process of its own.
#[test]
fn child_writes_to_the_given_directory() {
    let Some(directory) = std::env::var_os(run::DIRECTORY) else {
        return;
    };
    let work = std::env::var(run::WORK).unwrap();
    let words: Vec<u32> = work.split(' ').map(|word| word.parse().unwrap()).collect();
    let work = Work { first: words[0].into(), tasks: words[1].into(), turns: words[2] };
    child::run(Path::new(&directory), work);
}

/// Runs the child in a fresh directory with a fault at the n-th call, and checks the store.
fn with_fault(call: &str, fault: &str, when: &str) -> ChildOutput {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    let (tracing, injecting) = (format!("trace={call}"), format!("inject={call}:{fault}:when={when}"));
    let options = ["-e", &tracing, "-e", &injecting];
    let heard = Running::under_strace(&store, SHORT, &options, &directory.path().join("trace")).end();
    let mut acks = Acks::new();
    heard.add_to(&mut acks);
    check(&store, &mut acks);
    heard
}

/// Returns at how many calls the child was killed.
fn killed_at_every(call: &str) -> usize {
    for n in 1.. {
        let heard = with_fault(call, "signal=KILL", &n.to_string());
        if heard.is_done() {
            return n - 1;
        }
        assert!(!heard.succeeded, "killed or done: {heard:?}");
    }
    unreachable!("it makes fewer calls than there are numbers")
}

#[test]
fn killed_at_every_sync_it_loses_nothing() {
    if skip_without_strace("killed_at_every_sync_it_loses_nothing") {
        return;
    }

    let (data, directories) = (killed_at_every("fdatasync"), killed_at_every("fsync"));

    println!("killed at each of {data} fdatasync and {directories} fsync");
    assert!(data > 10, "{data}");
}

#[test]
fn killed_at_every_write_it_loses_nothing() {
    if skip_without_strace("killed_at_every_write_it_loses_nothing") {
        return;
    }

    let killed = killed_at_every("pwrite64");

    println!("killed at each of {killed} pwrite64");
    assert!(killed > 100, "{killed}");
}

#[test]
fn killed_where_it_cuts_or_removes_files_it_loses_nothing() {
    if skip_without_strace("killed_where_it_cuts_or_removes_files_it_loses_nothing") {
        return;
    }

    let (cut, removed) = (killed_at_every("ftruncate"), killed_at_every("unlink"));

    println!("killed at each of {cut} ftruncate and {removed} unlink");
    assert!(removed > 0, "the log is removed at the end");
}

#[test]
fn killed_at_two_hundred_random_moments_it_loses_nothing() {
    let mut random = Random::seeded();

    for _ in 0..10 {
        let directory = tempfile::tempdir().unwrap();
        let mut acks = Acks::new();
        // The next child goes on where the last one was killed.
        for _ in 0..20 {
            let mut child = Running::plainly(directory.path(), ENDLESS);
            child.wait_for("opened");
            // The moment itself is what is random here; nothing is waited for.
            std::thread::sleep(Duration::from_micros(random.below(20_000)));
            child.kill();
            let heard = child.end();
            assert!(!heard.succeeded);
            heard.add_to(&mut acks);
            check(directory.path(), &mut acks);
        }
        assert!(!acks.is_empty());
    }
}

#[test]
fn several_processes_on_one_store_lose_nothing_when_they_are_killed() {
    let mut random = Random::seeded();
    let directory = tempfile::tempdir().unwrap();
    let mut acks = Acks::new();

    for _ in 0..12 {
        let firsts = [1, 11, 21, 31].into_iter();
        let start = |first| Running::plainly(directory.path(), Work { first, ..ENDLESS });
        let mut children: Vec<Running> = firsts.map(start).collect();
        for child in &mut children {
            child.wait_for("ack ");
            std::thread::sleep(Duration::from_micros(random.below(20_000)));
        }
        for mut child in children {
            child.kill();
            let heard = child.end();
            assert!(!heard.succeeded);
            heard.add_to(&mut acks);
        }
        check(directory.path(), &mut acks);
    }
}

#[test]
fn no_acknowledgement_precedes_its_sync() {
    if skip_without_strace("no_acknowledgement_precedes_its_sync") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("trace");
    // Whole pages are shown, since a token may be anywhere in one.
    let options = ["-s", "8192", "-e", "trace=pwrite64,write,fdatasync,fsync"];
    let work = Work { first: 1, tasks: 4, turns: 12 };

    let heard = Running::under_strace(&directory.path().join("store"), work, &options, &file).end();

    assert!(heard.is_done(), "{heard:?}");
    let trace = fs::read(&file).unwrap();
    let seen = trace::acknowledged_behind_sync(&String::from_utf8_lossy(&trace));
    let told = heard.starting_with("ack ").iter().filter(|line| line.contains("token-")).count();
    assert_eq!(seen, Ok(told));
    assert!(told >= 8, "{told}");
    println!("{told} acknowledgements, each behind its sync");
}

#[test]
fn a_full_disk_is_reported_and_nothing_is_lost() {
    if skip_without_strace("a_full_disk_is_reported_and_nothing_is_lost") {
        return;
    }
    let (mut refused, mut unopened) = (0, 0);

    for n in (1..).step_by(7) {
        let heard = with_fault("pwrite64", "error=ENOSPC", &n.to_string());
        assert!(heard.succeeded, "{heard:?}");
        let told = [heard.starting_with("refused "), heard.starting_with("unopened ")];
        for line in told.concat() {
            assert!(line.contains("full"), "{line}");
        }
        refused += told[0].len();
        unopened += told[1].len();
        if n > 200 && told.concat().is_empty() {
            break;
        }
    }

    println!("refused {refused} writes and {unopened} opens");
    assert!(refused > 10 && unopened > 0);
}

#[test]
fn a_disk_that_stays_full_acknowledges_nothing_more() {
    if skip_without_strace("a_disk_that_stays_full_acknowledges_nothing_more") {
        return;
    }

    // The disk fills up later in each round, until a commit was acknowledged before.
    let last_ack = |heard: &ChildOutput| heard.lines.iter().rposition(|line| line.starts_with("ack "));
    let from = (120..1_000).step_by(40);
    let mut all = from.map(|n| with_fault("pwrite64", "error=ENOSPC", &format!("{n}+")));
    let heard = all.find(|heard| last_ack(heard).is_some()).unwrap();

    assert!(heard.succeeded, "{heard:?}");
    let first_refusal = heard.lines.iter().position(|line| line.starts_with("refused full"));
    assert!(last_ack(&heard) < first_refusal, "{heard:?}");
}

#[test]
fn after_a_failed_sync_the_outcome_is_read_again() {
    if skip_without_strace("after_a_failed_sync_the_outcome_is_read_again") {
        return;
    }
    let mut refused = 0;

    for n in 1.. {
        let heard = with_fault("fdatasync", "error=EIO", &n.to_string());
        assert!(heard.succeeded, "{heard:?}");
        // One sync failed and the next one succeeded: then the outcome is known.
        assert_eq!(heard.starting_with("refused unclear"), [] as [&str; 0]);
        let told = [heard.starting_with("refused failed"), heard.starting_with("unopened ")].concat();
        refused += heard.starting_with("refused failed").len();
        if told.is_empty() && n > 12 {
            break;
        }
    }

    println!("{refused} writes were refused and proven not written");
    assert!(refused > 5, "{refused}");
}

#[test]
fn while_no_sync_works_every_outcome_is_unclear() {
    if skip_without_strace("while_no_sync_works_every_outcome_is_unclear") {
        return;
    }

    // strace counts per thread: no sync of the thread that opened the store may succeed either.
    let heard = with_fault("fdatasync", "error=EIO", &format!("{}+", syncs_of_opening() + 1));

    assert!(heard.succeeded, "{heard:?}");
    let last_ack = heard.lines.iter().rposition(|line| line.starts_with("ack "));
    let first_refusal = heard.lines.iter().position(|line| line.starts_with("refused "));
    assert!(last_ack < first_refusal);
    assert!(heard.starting_with("refused unclear").len() > 1, "{heard:?}");
}

/// Syncs of the thread that opens the store, before the first write.
fn syncs_of_opening() -> usize {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace");
    let options = ["-e", "trace=fdatasync"];
    Running::under_strace(&directory.path().join("store"), SHORT, &options, &trace).end();
    let trace = fs::read_to_string(trace).unwrap();
    let began = trace.lines().filter(|line| line.contains("fdatasync("));
    let threads: Vec<&str> = began.filter_map(|line| line.split(' ').next()).collect();
    threads.iter().take_while(|thread| **thread == threads[0]).count()
}

/// Splitmix: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn seeded() -> Self {
        let seed = std::env::var("PINFOLD_CRASH_SEED").map_or(20_261_115, |seed| seed.parse().unwrap());
        println!("seed {seed}; another one by PINFOLD_CRASH_SEED");
        Self(seed)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}
