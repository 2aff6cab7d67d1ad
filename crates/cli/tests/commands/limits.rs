//! Exceeded limits end with their cause and exit code, as documented in `docs/limits.md`.

use pinfold_test_support::skip;
use serde_json::Value;

use crate::fixture::{Fixture, all_absent, fixtures, text};

/// A fixture with control groups. Without them nothing enforces these limits, and the test is reported as skipped.
fn fixture_with_groups(test: &str) -> Option<Fixture> {
    let found = fixtures().into_iter().find(Fixture::has_groups);
    if found.is_none() {
        skip(test, "not root");
    }
    found
}

/// The exit code and the JSON document.
fn ended(fixture: &Fixture, arguments: &[&str]) -> (Option<i32>, Value) {
    let output = fixture.pinfold(&[&["run", "--json"], arguments].concat());
    let document = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", text(&output.stdout), text(&output.stderr)));
    (output.status.code(), document)
}

const TEN_GIBIBYTES: [&str; 5] = ["dd", "if=/dev/zero", "of=/workspace/x", "bs=1M", "count=10240"];

#[test]
fn writing_past_the_disk_limit_ends_with_disk_limit() {
    for fixture in fixtures() {
        let (code, document) = ended(&fixture, &[&["--disk", "64", "--"], &TEN_GIBIBYTES[..]].concat());

        assert_eq!((code, &document["cause"]), (Some(137), &"disk_limit".into()), "{document}");
        assert_eq!(document["exit_code"], 1, "of dd itself");
        assert!(document["stderr"].as_str().unwrap().contains("No space left on device"), "{document}");
        let freed = document["receipt"]["freed_bytes"].as_u64().unwrap();
        assert!((32 << 20..=64 << 20).contains(&freed), "{freed}");
        assert!(all_absent(&document["receipt"]) && fixture.is_clean());
    }
}

#[test]
fn exceeding_the_operation_limit_ends_with_operation_limit() {
    for fixture in fixtures() {
        let limits = ["--operations", "2", "--timeout", "20"];
        let run = |script| ended(&fixture, &[&limits[..], &["--", "sh", "-c", script]].concat());

        let (code, chatty) = run("while :; do echo on; sleep 0.1; done");
        let (allowed, modest) = run("echo on");

        assert_eq!((code, &chatty["cause"]), (Some(137), &"operation_limit".into()), "{chatty}");
        assert_eq!(chatty["exit_code"], 137, "of the shell, by SIGKILL");
        assert!(all_absent(&chatty["receipt"]) && fixture.is_clean());
        assert_eq!((allowed, &modest["cause"]), (Some(0), &"completed".into()), "{modest}");
    }
}

#[test]
fn disk_limit_larger_than_memory_is_enforced_too() {
    let Some(fixture) = fixture_with_groups("disk_limit_larger_than_memory_is_enforced_too") else {
        return;
    };

    let limits = ["--memory", "64", "--disk", "100", "--"];
    let (code, document) = ended(&fixture, &[&limits[..], &TEN_GIBIBYTES].concat());

    assert_eq!((code, &document["cause"]), (Some(137), &"disk_limit".into()), "{document}");
    assert!(document["stderr"].as_str().unwrap().contains("No space left on device"), "{document}");
}

#[test]
fn exceeding_the_memory_limit_ends_with_memory_limit() {
    let Some(fixture) = fixture_with_groups("exceeding_the_memory_limit_ends_with_memory_limit") else {
        return;
    };

    let (code, document) = ended(&fixture, &["--memory", "64", "--", "tail", "/dev/zero"]);

    assert_eq!((code, &document["cause"]), (Some(137), &"memory_limit".into()), "{document}");
    assert_eq!(document["exit_code"], 137, "of tail, by SIGKILL");
    let peak = document["usage"]["memory_peak_bytes"].as_u64().unwrap();
    assert!((32 << 20..=64 << 20).contains(&peak), "{peak}");
    assert!(all_absent(&document["receipt"]) && fixture.is_clean());
}

#[test]
fn fork_bomb_ends_with_process_limit() {
    let Some(fixture) = fixture_with_groups("fork_bomb_ends_with_process_limit") else { return };

    // Three times the limit; each process ends after a while.
    let bomb = "i=0; while [ $i -lt 200 ]; do sleep 20 & i=$((i+1)); done; wait";
    let (code, document) = ended(&fixture, &["--pids", "64", "--timeout", "60", "--", "sh", "-c", bomb]);

    assert_eq!((code, &document["cause"]), (Some(137), &"process_limit".into()), "{document}");
    assert_eq!(document["exit_code"], 2, "of the shell itself");
    assert!(document["stderr"].as_str().unwrap().contains("Cannot fork"), "{document}");
    assert!(
        document["timings"]["run_ms"].as_u64().unwrap() < 20_000,
        "the background processes were waited for: {document}"
    );
    assert!(all_absent(&document["receipt"]) && fixture.is_clean());
}

#[test]
fn fork_bomb_that_survives_its_limit_leaves_nothing_behind() {
    let Some(fixture) = fixture_with_groups("fork_bomb_that_survives_its_limit_leaves_nothing_behind") else {
        return;
    };

    let bomb = "b() { [ $1 -gt 0 ] || { sleep 20; return; }; b $(($1-1)) & b $(($1-1)) & }; b 8; exit 0";
    let (code, document) = ended(&fixture, &["--pids", "64", "--timeout", "60", "--", "sh", "-c", bomb]);

    assert_eq!((code, &document["cause"]), (Some(0), &"completed".into()), "{document}");
    assert!(document["timings"]["run_ms"].as_u64().unwrap() < 20_000, "{document}");
    assert!(all_absent(&document["receipt"]) && fixture.is_clean());
}
