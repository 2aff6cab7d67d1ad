//! The mover is killed at each of its modifying system calls: the log stays readable, and the next mover finishes the
//! move.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use pinfold_logs::LogEntry;
use pinfold_test_support::skip_without_strace;

use crate::fixture::{Fixture, ID};

const DIRECTORY: &str = "PINFOLD_TEST_MOVE_IN";

/// Not a test by itself: the other test starts it as a separate process.
#[test]
fn helper_process_moves_all_logs() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    // strace counts calls per thread, so all of them must be on one.
    let runtime = runtime.enable_all().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let fixture = Fixture::over(Path::new(&directory));
        assert_eq!(fixture.logs.move_all().await.unwrap().moved, [ID]);
    });
}

/// Returns whether the mover finished before it reached that call.
fn move_killed_at(directory: &Path, call: &str, time: u32) -> bool {
    let (trace, inject) = (format!("trace={call}"), format!("inject={call}:signal=KILL:when={time}"));
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject]);
    strace.arg(std::env::current_exe().unwrap());
    strace.args(["crashes::helper_process_moves_all_logs", "--exact", "--test-threads=1"]);
    strace.env(DIRECTORY, directory).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    strace.status().unwrap().success()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

async fn read(directory: &Path) -> Vec<LogEntry> {
    Fixture::over(directory).read_all().await
}

#[tokio::test]
async fn mover_killed_at_any_call_leaves_the_log_readable_and_the_next_finishes() {
    const TEST: &str = "mover_killed_at_any_call_leaves_the_log_readable_and_the_next_finishes";
    if skip_without_strace(TEST) {
        return;
    }
    let original = tempfile::tempdir().unwrap();
    {
        let mut fixture = Fixture::ready_in(original.path()).await;
        for execution in [7, 8] {
            fixture.start(execution).await;
            fixture.write(execution, "z".repeat(700_000).as_str());
        }
        fixture.finish(7).await;
        fixture.end().await;
    }
    let whole = read(original.path()).await;
    let mut killed = 0;
    for call in ["fsync", "rename", "mkdir", "unlinkat", "write"] {
        for time in 1.. {
            let copied = tempfile::tempdir().unwrap();
            copy(original.path(), copied.path());

            let is_done = move_killed_at(copied.path(), call, time);

            assert_eq!(read(copied.path()).await, whole, "killed at {call} {time}");
            if is_done {
                break;
            }
            killed += 1;
            Fixture::over(copied.path()).logs.move_all().await.unwrap();
            assert_eq!(read(copied.path()).await, whole, "moved after {call} {time}");
            let left = copied.path().join("logs").join(ID.to_string());
            assert!(!left.exists(), "moved after {call} {time}");
        }
    }
    println!("killed at each of {killed} calls");
    assert!(killed > 15, "{killed}");
}
