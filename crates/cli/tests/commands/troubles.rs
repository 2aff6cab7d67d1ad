//! `pinfold doctor ID` on sandboxes that are broken in every way that users know: each is called by its name.

use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::ground::{Ground, grounds, keeper_of, text, until};

/// A command that goes on in a sandbox, and is let go of at the end.
struct AtWork(Child);

impl Drop for AtWork {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn begin(ground: &Ground, id: &str, script: &str) -> AtWork {
    let mut exec = ground.command(&["exec", id, "--", "sh", "-c", script]);
    AtWork(exec.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

/// The document in which it is first called so.
fn until_called(ground: &Ground, id: &str, kind: &str) -> Value {
    let found = std::cell::RefCell::new(Value::Null);
    until(&format!("it is called {kind}"), || {
        *found.borrow_mut() = ground.document(&["doctor", "--json", id]);
        let is_so = found.borrow()["troubles"][0]["kind"] == kind;
        if !is_so {
            eprintln!("{}", found.borrow()["troubles"]);
        }
        is_so
    });
    found.into_inner()
}

/// With the same words for people, and an exit code that says so.
fn is_told(ground: &Ground, id: &str, document: &Value) {
    let trouble = &document["troubles"][0];
    assert_eq!(document["verdict"], trouble["means"], "{document}");
    let output = ground.pinfold(&["doctor", id]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in [trouble["kind"].as_str().unwrap(), "seen: ", "do:   ", "pinfold "] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn a_loop_is_busy() {
    for ground in grounds() {
        let id = ground.create(&[]);
        let _loop = begin(&ground, &id, "while :; do :; done");

        let found = until_called(&ground, &id, "busy");
        assert!(found["troubles"][0]["resolve"].as_str().unwrap().contains(&id), "{found}");
        is_told(&ground, &id, &found);
    }
}

#[test]
fn a_pipe_that_nobody_writes_to_hangs_whoever_waits_for_it() {
    for ground in grounds() {
        let id = ground.create(&[]);
        let _waiting = begin(&ground, &id, "mkfifo /tmp/pipe && exec cat /tmp/pipe");

        let found = until_called(&ground, &id, "hung");
        assert!(found["troubles"][0]["saw"].as_str().unwrap().contains("cat waits in "), "{found}");
        is_told(&ground, &id, &found);
    }
}

#[test]
fn processes_that_were_stopped_are_told_from_those_that_hang() {
    for ground in grounds() {
        let id = ground.create(&[]);
        let _stopped = begin(&ground, &id, "sleep 1000 & kill -STOP $!; wait");

        let found = until_called(&ground, &id, "stopped");
        assert!(found["troubles"][0]["saw"].as_str().unwrap().contains("1 of 2 processes"), "{found}");
    }
}

#[test]
fn one_that_asks_something_waits_for_its_answer() {
    let ground = grounds().remove(0);
    let id = ground.create(&[]);
    let mut exec =
        ground.command(&["exec", "-i", &id, "--", "sh", "-c", "echo 'Continue? [y/N]'; read answer"]);
    let piped = exec.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let _asking = AtWork(piped.unwrap());

    until_called(&ground, &id, "waits_for_input");
}

#[test]
fn memory_that_only_grows_is_a_leak() {
    let ground = grounds().remove(0);
    let id = ground.create(&["--memory", "512"]);
    let leak = "exec perl -e 'while (1) { push @x, \"x\" x 1_000_000; select(undef, undef, undef, 0.1) }'";
    let _leak = begin(&ground, &id, leak);

    until_called(&ground, &id, "leaking");
}

#[test]
fn a_full_disk_is_told_with_its_figures() {
    let ground = grounds().remove(0);
    let id = ground.create(&["--disk", "32"]);
    let fill = "dd if=/dev/zero of=/workspace/big bs=64k 2>/dev/null; exec sleep 1000";
    let _full = begin(&ground, &id, fill);

    let found = until_called(&ground, &id, "disk_full");
    assert!(found["troubles"][0]["saw"].as_str().unwrap().contains(" MiB, "), "{found}");
}

#[test]
fn one_with_all_the_processes_that_it_may_have_is_told_so() {
    let ground = grounds().remove(0);
    let id = ground.create(&["--pids", "20"]);
    let fill = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19; do sleep 1000 & done; wait";
    let _full = begin(&ground, &id, fill);

    let found = until_called(&ground, &id, "processes_full");
    assert!(found["troubles"][0]["saw"].as_str().unwrap().contains("20 of 20"), "{found}");
}

#[test]
fn a_keeper_that_was_stopped_does_not_answer() {
    let ground = grounds().remove(0);
    let id = ground.create(&[]);
    let keeper = i32::try_from(keeper_of(&ground.data()).unwrap()).unwrap();

    kill_process(Pid::from_raw(keeper).unwrap(), Signal::STOP).unwrap();

    until_called(&ground, &id, "keeper_silent");
}

#[test]
fn a_mount_that_is_gone_is_told_by_its_path() {
    let ground = grounds().remove(0);
    if !ground.has_groups() {
        return;
    }
    let id = ground.create(&[]);
    let keeper = keeper_of(&ground.data()).unwrap().to_string();

    let unmount = ["-t", &keeper, "-m", "-p", "--", "umount", "-l", "/dev/shm"];
    assert!(Command::new("nsenter").args(unmount).status().unwrap().success());

    let found = until_called(&ground, &id, "place_missing");
    assert!(found["troubles"][0]["saw"].as_str().unwrap().contains("/dev/shm"), "{found}");
}

#[test]
fn work_that_takes_too_long_again_and_again_is_told() {
    let ground = grounds().remove(0);
    let id = ground.create(&[]);
    for _ in 0..2 {
        let output = ground.pinfold(&["exec", "--timeout", "200ms", &id, "--", "sleep", "1000"]);
        assert_eq!(output.status.code(), Some(124), "{}", text(&output.stderr));
    }

    until_called(&ground, &id, "repeated_timeouts");
}

#[test]
fn a_command_that_looks_for_a_network_is_told_that_there_is_none() {
    let ground = grounds().remove(0);
    let id = ground.create(&[]);
    let words = "echo 'fatal: unable to access: Could not resolve host: example.com' >&2; exit 128";
    ground.pinfold(&["exec", &id, "--", "sh", "-c", words]);

    until_called(&ground, &id, "no_network");
}
