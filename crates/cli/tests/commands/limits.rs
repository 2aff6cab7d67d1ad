//! What runs into a limit ends with that cause and code, as `docs/limits.md` says.

use std::fs::OpenOptions;
use std::io::Write;

use serde_json::Value;

use crate::ground::{Ground, all_absent, grounds, text};

/// As root, where control groups limit what runs. Nobody else may try what nothing would stop.
fn ground_with_groups(test: &str) -> Option<Ground> {
    let found = grounds().into_iter().find(Ground::has_groups);
    if let (None, Some(list)) = (&found, std::env::var_os("PINFOLD_SKIPPED_TESTS")) {
        let mut list = OpenOptions::new().create(true).append(true).open(list).unwrap();
        writeln!(list, "{test}: not root").unwrap();
    }
    found
}

/// The code of the program itself, and the document.
fn ended(ground: &Ground, arguments: &[&str]) -> (Option<i32>, Value) {
    let output = ground.pinfold(&[&["run", "--json"], arguments].concat());
    let document = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", text(&output.stdout), text(&output.stderr)));
    (output.status.code(), document)
}

const TEN_GIBIBYTES: [&str; 5] = ["dd", "if=/dev/zero", "of=/workspace/x", "bs=1M", "count=10240"];

#[test]
fn ten_gibibytes_on_a_small_disk_are_refused_inside_and_that_is_the_cause() {
    for ground in grounds() {
        let (code, document) = ended(&ground, &[&["--disk", "64", "--"], &TEN_GIBIBYTES[..]].concat());

        assert_eq!((code, &document["cause"]), (Some(137), &"disk_limit".into()), "{document}");
        assert_eq!(document["exit_code"], 1, "of dd itself");
        assert!(document["stderr"].as_str().unwrap().contains("No space left on device"), "{document}");
        let freed = document["receipt"]["freed_bytes"].as_u64().unwrap();
        assert!((32 << 20..=64 << 20).contains(&freed), "{freed}");
        assert!(all_absent(&document["receipt"]) && ground.is_clean());
    }
}

#[test]
fn more_operations_than_allowed_are_the_cause_and_as_many_are_not() {
    for ground in grounds() {
        let limits = ["--operations", "2", "--timeout", "20"];
        let run = |script| ended(&ground, &[&limits[..], &["--", "sh", "-c", script]].concat());

        let (code, chatty) = run("while :; do echo on; sleep 0.1; done");
        let (allowed, modest) = run("echo on");

        assert_eq!((code, &chatty["cause"]), (Some(137), &"operation_limit".into()), "{chatty}");
        assert_eq!(chatty["exit_code"], 137, "of the shell, by SIGKILL");
        assert!(all_absent(&chatty["receipt"]) && ground.is_clean());
        assert_eq!((allowed, &modest["cause"]), (Some(0), &"completed".into()), "{modest}");
    }
}

#[test]
fn a_disk_that_is_larger_than_memory_ends_the_same_way() {
    let Some(ground) = ground_with_groups("a_disk_that_is_larger_than_memory_ends_the_same_way") else {
        return;
    };

    let limits = ["--memory", "64", "--disk", "100", "--"];
    let (code, document) = ended(&ground, &[&limits[..], &TEN_GIBIBYTES].concat());

    assert_eq!((code, &document["cause"]), (Some(137), &"disk_limit".into()), "{document}");
    assert!(document["stderr"].as_str().unwrap().contains("No space left on device"), "{document}");
}

#[test]
fn a_program_that_takes_all_memory_is_killed_and_that_is_the_cause() {
    let Some(ground) = ground_with_groups("a_program_that_takes_all_memory_is_killed_and_that_is_the_cause")
    else {
        return;
    };

    let (code, document) = ended(&ground, &["--memory", "64", "--", "tail", "/dev/zero"]);

    assert_eq!((code, &document["cause"]), (Some(137), &"memory_limit".into()), "{document}");
    assert_eq!(document["exit_code"], 137, "of tail, by SIGKILL");
    let peak = document["usage"]["memory_peak_bytes"].as_u64().unwrap();
    assert!((32 << 20..=64 << 20).contains(&peak), "{peak}");
    assert!(all_absent(&document["receipt"]) && ground.is_clean());
}

#[test]
fn a_fork_bomb_cannot_fork_and_that_is_the_cause() {
    let Some(ground) = ground_with_groups("a_fork_bomb_cannot_fork_and_that_is_the_cause") else { return };

    // Three times as many as it may have, and each is over after a while.
    let bomb = "i=0; while [ $i -lt 200 ]; do sleep 20 & i=$((i+1)); done; wait";
    let (code, document) = ended(&ground, &["--pids", "64", "--timeout", "60", "--", "sh", "-c", bomb]);

    assert_eq!((code, &document["cause"]), (Some(137), &"process_limit".into()), "{document}");
    assert_eq!(document["exit_code"], 2, "of the shell itself");
    assert!(document["stderr"].as_str().unwrap().contains("Cannot fork"), "{document}");
    assert!(document["timings"]["run_ms"].as_u64().unwrap() < 20_000, "it was not waited for: {document}");
    assert!(all_absent(&document["receipt"]) && ground.is_clean());
}

#[test]
fn a_fork_bomb_whose_first_process_copes_leaves_nothing_behind() {
    let Some(ground) = ground_with_groups("a_fork_bomb_whose_first_process_copes_leaves_nothing_behind")
    else {
        return;
    };

    let bomb = "b() { [ $1 -gt 0 ] || { sleep 20; return; }; b $(($1-1)) & b $(($1-1)) & }; b 8; exit 0";
    let (code, document) = ended(&ground, &["--pids", "64", "--timeout", "60", "--", "sh", "-c", bomb]);

    assert_eq!((code, &document["cause"]), (Some(0), &"completed".into()), "{document}");
    assert!(document["timings"]["run_ms"].as_u64().unwrap() < 20_000, "{document}");
    assert!(all_absent(&document["receipt"]) && ground.is_clean());
}
