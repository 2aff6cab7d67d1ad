//! Kills a writing process at each of its durable system calls and at random moments, makes its calls fail, and checks
//! the store: no acknowledged commit is missing, and no half transaction is visible.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests, which print what they covered")]

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

/// Short, since it is run once for each of its calls.
const SHORT: Work = Work { first: 1, tasks: 3, transitions: 9 };

const ENDLESS: Work = Work { first: 1, tasks: 6, transitions: 100_000 };

/// Not a test by itself: the other tests start it as a separate process.
#[test]
fn helper_process_writes_until_done_or_killed() {
    let Some(directory) = std::env::var_os(run::DIRECTORY) else {
        return;
    };
    let work = std::env::var(run::WORK).unwrap();
    let words: Vec<u32> = work.split(' ').map(|word| word.parse().unwrap()).collect();
    let work = Work { first: words[0].into(), tasks: words[1].into(), transitions: words[2] };
    child::run(Path::new(&directory), work);
}

/// Runs the child in a new directory with a fault at the n-th call, and checks the store afterwards.
fn with_fault(call: &str, fault: &str, when: &str) -> ChildOutput {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    let (tracing, injecting) = (format!("trace={call}"), format!("inject={call}:{fault}:when={when}"));
    let options = ["-e", &tracing, "-e", &injecting];
    let output = Running::under_strace(&store, SHORT, &options, &directory.path().join("trace")).end();
    let mut acks = Acks::new();
    output.add_to(&mut acks);
    check(&store, &mut acks);
    output
}

/// Kills the child at its first, second, … call until it finishes; returns the number of kills.
fn kills_at_every(call: &str) -> usize {
    for n in 1.. {
        let output = with_fault(call, "signal=KILL", &n.to_string());
        if output.is_done() {
            return n - 1;
        }
        assert!(!output.succeeded, "killed or done: {output:?}");
    }
    unreachable!("the child makes a finite number of calls")
}

#[test]
fn writer_killed_at_any_sync_loses_no_acknowledged_commit() {
    if skip_without_strace("writer_killed_at_any_sync_loses_no_acknowledged_commit") {
        return;
    }

    let (data, directories) = (kills_at_every("fdatasync"), kills_at_every("fsync"));

    println!("killed at each of {data} fdatasync and {directories} fsync");
    assert!(data > 10, "{data}");
}

#[test]
fn writer_killed_at_any_write_loses_no_acknowledged_commit() {
    if skip_without_strace("writer_killed_at_any_write_loses_no_acknowledged_commit") {
        return;
    }

    let killed = kills_at_every("pwrite64");

    println!("killed at each of {killed} pwrite64");
    assert!(killed > 100, "{killed}");
}

#[test]
fn writer_killed_at_any_truncate_or_unlink_loses_no_acknowledged_commit() {
    if skip_without_strace("writer_killed_at_any_truncate_or_unlink_loses_no_acknowledged_commit") {
        return;
    }

    let (cut, removed) = (kills_at_every("ftruncate"), kills_at_every("unlink"));

    println!("killed at each of {cut} ftruncate and {removed} unlink");
    assert!(removed > 0, "the WAL is removed at the end");
}

#[test]
fn writer_killed_at_200_random_moments_loses_no_acknowledged_commit() {
    let mut random = Random::seeded();

    for _ in 0..10 {
        let directory = tempfile::tempdir().unwrap();
        let mut acks = Acks::new();
        // Each child continues where the last one was killed.
        for _ in 0..20 {
            let mut child = Running::start(directory.path(), ENDLESS);
            child.wait_for("opened");
            // A random moment to kill it at; the test waits for nothing.
            std::thread::sleep(Duration::from_micros(random.below(20_000)));
            child.kill();
            let output = child.end();
            assert!(!output.succeeded);
            output.add_to(&mut acks);
            check(directory.path(), &mut acks);
        }
        assert!(!acks.is_empty());
    }
}

#[test]
fn several_killed_writers_lose_no_acknowledged_commit() {
    let mut random = Random::seeded();
    let directory = tempfile::tempdir().unwrap();
    let mut acks = Acks::new();

    for _ in 0..12 {
        let firsts = [1, 11, 21, 31].into_iter();
        let start = |first| Running::start(directory.path(), Work { first, ..ENDLESS });
        let mut children: Vec<Running> = firsts.map(start).collect();
        for child in &mut children {
            child.wait_for("ack ");
            std::thread::sleep(Duration::from_micros(random.below(20_000)));
        }
        for mut child in children {
            child.kill();
            let output = child.end();
            assert!(!output.succeeded);
            output.add_to(&mut acks);
        }
        check(directory.path(), &mut acks);
    }
}

#[test]
fn acknowledgement_follows_its_sync() {
    if skip_without_strace("acknowledgement_follows_its_sync") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("trace");
    // Print whole pages, since a token may be anywhere in one.
    let options = ["-s", "8192", "-e", "trace=pwrite64,write,fdatasync,fsync"];
    let work = Work { first: 1, tasks: 4, transitions: 12 };

    let output = Running::under_strace(&directory.path().join("store"), work, &options, &file).end();

    assert!(output.is_done(), "{output:?}");
    let trace = fs::read(&file).unwrap();
    let seen = trace::count_synced_acknowledgements(&String::from_utf8_lossy(&trace));
    let printed = output.starting_with("ack ").iter().filter(|line| line.contains("token-")).count();
    assert_eq!(seen, Ok(printed));
    assert!(printed >= 8, "{printed}");
    println!("{printed} acknowledgements, each after its sync");
}

#[test]
fn full_disk_is_reported_and_loses_no_acknowledged_commit() {
    if skip_without_strace("full_disk_is_reported_and_loses_no_acknowledged_commit") {
        return;
    }
    let (mut refused, mut unopened) = (0, 0);

    for n in (1..).step_by(7) {
        let output = with_fault("pwrite64", "error=ENOSPC", &n.to_string());
        assert!(output.succeeded, "{output:?}");
        let reported = [output.starting_with("refused "), output.starting_with("unopened ")];
        for line in reported.concat() {
            assert!(line.contains("full"), "{line}");
        }
        refused += reported[0].len();
        unopened += reported[1].len();
        if n > 200 && reported.concat().is_empty() {
            break;
        }
    }

    println!("refused {refused} writes and {unopened} opens");
    assert!(refused > 10 && unopened > 0);
}

#[test]
fn disk_that_stays_full_acknowledges_no_further_commit() {
    if skip_without_strace("disk_that_stays_full_acknowledges_no_further_commit") {
        return;
    }

    // Let the disk fill up later and later, until a commit is acknowledged before that.
    let last_ack = |output: &ChildOutput| output.lines.iter().rposition(|line| line.starts_with("ack "));
    let from = (120..1_000).step_by(40);
    let mut all = from.map(|n| with_fault("pwrite64", "error=ENOSPC", &format!("{n}+")));
    let output = all.find(|output| last_ack(output).is_some()).unwrap();

    assert!(output.succeeded, "{output:?}");
    let first_refusal = output.lines.iter().position(|line| line.starts_with("refused full"));
    assert!(last_ack(&output) < first_refusal, "{output:?}");
}

#[test]
fn failed_sync_is_resolved_by_reading_the_outcome() {
    if skip_without_strace("failed_sync_is_resolved_by_reading_the_outcome") {
        return;
    }
    let mut refused = 0;

    for n in 1.. {
        let output = with_fault("fdatasync", "error=EIO", &n.to_string());
        assert!(output.succeeded, "{output:?}");
        // One sync fails and the next one works, so the outcome is known by then.
        assert_eq!(output.starting_with("refused unknown"), [] as [&str; 0]);
        let reported = [output.starting_with("refused failed"), output.starting_with("unopened ")].concat();
        refused += output.starting_with("refused failed").len();
        if reported.is_empty() && n > 12 {
            break;
        }
    }

    println!("{refused} writes were refused and proven not written");
    assert!(refused > 5, "{refused}");
}

#[test]
fn one_outcome_is_unknown_and_later_writes_do_not_begin_while_every_sync_fails() {
    if skip_without_strace("one_outcome_is_unknown_and_later_writes_do_not_begin_while_every_sync_fails") {
        return;
    }

    // strace counts per thread: without the offset, the thread that opened the store would have syncs left that work.
    let output = with_fault("fdatasync", "error=EIO", &format!("{}+", syncs_of_opening() + 1));

    assert!(output.succeeded, "{output:?}");
    let last_ack = output.lines.iter().rposition(|line| line.starts_with("ack "));
    let first_refusal = output.lines.iter().position(|line| line.starts_with("refused "));
    assert!(last_ack < first_refusal);
    assert!(first_refusal.is_some_and(|at| output.lines[at].starts_with("refused unknown")), "{output:?}");
    assert!(output.starting_with("refused unwritable").len() > 1, "{output:?}");
}

/// The number of fdatasync calls of the thread that opens the store, before the first write.
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

/// The splitmix64 generator.
struct Random(u64);

impl Random {
    fn seeded() -> Self {
        let seed = std::env::var("PINFOLD_CRASH_SEED").map_or(20_261_115, |seed| seed.parse().unwrap());
        println!("seed {seed}; set another one with PINFOLD_CRASH_SEED");
        Self(seed)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}
