//! Tests that cannot run on this host are reported: a test that did not run has not passed.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Names the file in which `cargo xtask test` collects the skipped tests.
const LIST_VARIABLE: &str = "PINFOLD_SKIPPED_TESTS";

/// Reports a test as skipped.
pub fn skip(test: &str, reason: &str) {
    if let Some(list) = std::env::var_os(LIST_VARIABLE) {
        append(Path::new(&list), test, reason);
    }
}

/// Whether strace is missing. Then the test is reported as skipped.
#[must_use]
pub fn skip_without_strace(test: &str) -> bool {
    let version = Command::new("strace").arg("--version").stdout(Stdio::null()).status();
    let is_missing = !version.is_ok_and(|status| status.success());
    if is_missing {
        skip(test, "strace is not installed");
    }
    is_missing
}

fn append(list: &Path, test: &str, reason: &str) {
    let opened = OpenOptions::new().create(true).append(true).open(list);
    // In one call: other tests append at the same time.
    let written = opened.and_then(|mut file| file.write_all(format!("{test}: {reason}\n").as_bytes()));
    written
        .unwrap_or_else(|error| panic!("could not report {test} as skipped in {}: {error}", list.display()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_skip_at_the_same_time_are_all_reported() {
        let directory = tempfile::tempdir().unwrap();
        let list = directory.path().join("skipped");

        std::thread::scope(|scope| {
            for number in 0..8 {
                let list = &list;
                scope.spawn(move || {
                    for _ in 0..50 {
                        append(list, &format!("test {number}"), "not root");
                    }
                });
            }
        });

        let lines = std::fs::read_to_string(&list).unwrap();
        assert_eq!(lines.lines().count(), 400);
        assert!(lines.lines().all(|line| line.starts_with("test ") && line.ends_with(": not root")));
    }
}
