//! `pinfold run` as users type it, with real sandboxes: as root and as an ordinary user.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// An ordinary user: nobody in particular.
const SOMEBODY: u32 = 54_321;

/// A data directory of its own, and the program where its user can reach it.
struct Ground {
    directory: tempfile::TempDir,
    user: Option<u32>,
}

impl Ground {
    fn of(user: Option<u32>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_pinfold"), directory.path().join("pinfold")).unwrap();
        fs::create_dir(directory.path().join("data")).unwrap();
        chown(directory.path().join("data"), user, user).unwrap();
        Self { directory, user }
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn run(&self, arguments: &[&str]) -> Command {
        self.pinfold("run", arguments)
    }

    fn pinfold(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.directory.path().join("pinfold"));
        command.args([name, "--data-dir"]).arg(self.data()).args(arguments);
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
    }

    fn output(&self, arguments: &[&str]) -> Output {
        self.run(arguments).stdin(Stdio::null()).output().unwrap()
    }

    /// Nothing of a body is left where bodies are.
    fn is_clean(&self) -> bool {
        let is_empty =
            |name: &str| fs::read_dir(self.data().join("linux").join(name)).unwrap().next().is_none();
        ["bodies", "control", "ids"].into_iter().all(is_empty)
    }
}

/// As root both kinds of user can be tried, else only oneself.
fn grounds() -> Vec<Ground> {
    let is_root =
        fs::metadata("/proc/self").map(|own| std::os::unix::fs::MetadataExt::uid(&own)).unwrap() == 0;
    if is_root { vec![Ground::of(None), Ground::of(Some(SOMEBODY))] } else { vec![Ground::of(None)] }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn it_exits_as_the_command_did_and_leaves_nothing() {
    for ground in grounds() {
        let output = ground.output(&["--", "sh", "-c", "id -u; echo trouble >&2; exit 7"]);

        assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
        assert_eq!((text(&output.stdout), text(&output.stderr)), ("0\n".into(), "trouble\n".into()));
        assert!(ground.is_clean());
    }
}

#[test]
fn the_document_carries_a_receipt_whose_every_line_says_absent() {
    for ground in grounds() {
        let output = ground.output(&["--json", "--", "echo", "hello"]);

        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["stdout"], "hello\n");
        assert_eq!(document["cause"], "completed");
        let checks = document["receipt"]["checks"].as_array().unwrap();
        assert!(checks.len() >= 6 && checks.iter().all(|check| check["result"] == "absent"), "{checks:?}");
    }
}

#[test]
fn exit_codes_tell_who_ended_it() {
    for ground in grounds() {
        assert_eq!(ground.output(&["--", "no-such-program"]).status.code(), Some(127));
        assert_eq!(ground.output(&["--", "/etc/passwd"]).status.code(), Some(126));
        assert_eq!(ground.output(&["--timeout", "1", "--", "sleep", "100"]).status.code(), Some(124));
        assert_eq!(ground.output(&["--", "sh", "-c", "kill -9 $$"]).status.code(), Some(137));
        assert!(ground.is_clean());
    }
}

#[test]
fn a_caller_that_is_killed_takes_its_sandbox_along_and_reconcile_clears_the_rest_away() {
    for ground in grounds() {
        let mut caller = ground.run(&["--", "sleep", "100"]).stdout(Stdio::null()).spawn().unwrap();
        until("the sandbox runs", || keeper_of(&ground.data()).is_some_and(is_alive));
        let keeper = keeper_of(&ground.data()).unwrap();

        caller.kill().unwrap();
        caller.wait().unwrap();

        until("the keeper is gone", || !is_alive(keeper));
        let reconciled = ground.pinfold("reconcile", &[]).output().unwrap();
        assert!(reconciled.status.success(), "{}{}", text(&reconciled.stdout), text(&reconciled.stderr));
        assert!(ground.is_clean());
    }
}

/// Process 1 of the one sandbox there is, as seen from outside.
fn keeper_of(data: &Path) -> Option<u32> {
    let entry = fs::read_dir(data.join("linux/control")).ok()?.next()?.ok()?;
    fs::read_to_string(entry.path().join("process")).ok()?.split(' ').next()?.parse().ok()
}

fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).is_some_and(|state| state != "Z")
}

#[expect(clippy::disallowed_methods, reason = "a test of real processes takes real time")]
fn until(what: &str, met: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !met() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
