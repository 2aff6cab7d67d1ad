//! `pinfold doctor ID` on sandboxes with each kind of problem: each is diagnosed by name.

use std::process::{Child, Command, Stdio};

use pinfold_test_support::until;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::fixture::{Fixture, fixtures, keeper_of, text};

/// A command that runs in a sandbox and is killed on drop.
struct BackgroundCommand(Child);

impl Drop for BackgroundCommand {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(fixture: &Fixture, id: &str, script: &str) -> BackgroundCommand {
    let mut exec = fixture.command(&["exec", id, "--", "sh", "-c", script]);
    BackgroundCommand(exec.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

/// Waits until the diagnosis names this kind of problem and returns the document.
fn wait_for_diagnosis(fixture: &Fixture, id: &str, kind: &str) -> Value {
    let found = std::cell::RefCell::new(Value::Null);
    until(&format!("the diagnosis is {kind}"), || {
        *found.borrow_mut() = fixture.document(&["doctor", "--json", id]);
        let matches = found.borrow()["troubles"][0]["kind"] == kind;
        if !matches {
            eprintln!("{}", found.borrow()["troubles"]);
        }
        matches
    });
    found.into_inner()
}

/// Checks that the text output has the same diagnosis and the exit code is 1.
fn assert_reported(fixture: &Fixture, id: &str, document: &Value) {
    let trouble = &document["troubles"][0];
    assert_eq!(document["verdict"], trouble["means"], "{document}");
    let output = fixture.pinfold(&["doctor", id]);
    let stdout = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{stdout}");
    for part in [trouble["kind"].as_str().unwrap(), "found: ", "do:   ", "pinfold "] {
        assert!(stdout.contains(part), "{part}: {stdout}");
    }
}

#[test]
fn busy_loop_is_diagnosed() {
    for fixture in fixtures() {
        let id = fixture.create(&[]);
        let _loop = start(&fixture, &id, "while :; do :; done");

        let found = wait_for_diagnosis(&fixture, &id, "busy");
        assert!(found["troubles"][0]["resolve"].as_str().unwrap().contains(&id), "{found}");
        assert_reported(&fixture, &id, &found);
    }
}

#[test]
fn blocked_read_is_diagnosed_as_hung() {
    for fixture in fixtures() {
        let id = fixture.create(&[]);
        let _waiting = start(&fixture, &id, "mkfifo /tmp/pipe && exec cat /tmp/pipe");

        let found = wait_for_diagnosis(&fixture, &id, "hung");
        assert!(found["troubles"][0]["saw"].as_str().unwrap().contains("cat waits in "), "{found}");
        assert_reported(&fixture, &id, &found);
    }
}

#[test]
fn stopped_processes_are_distinguished_from_hung_ones() {
    for fixture in fixtures() {
        let id = fixture.create(&[]);
        let _stopped = start(&fixture, &id, "sleep 1000 & kill -STOP $!; wait");

        let found = wait_for_diagnosis(&fixture, &id, "stopped");
        assert!(found["troubles"][0]["saw"].as_str().unwrap().contains("1 of 2 processes"), "{found}");
    }
}

#[test]
fn command_waiting_for_input_is_diagnosed() {
    let fixture = fixtures().remove(0);
    let id = fixture.create(&[]);
    let mut exec =
        fixture.command(&["exec", "-i", &id, "--", "sh", "-c", "echo 'Continue? [y/N]'; read answer"]);
    let piped = exec.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let _asking = BackgroundCommand(piped.unwrap());

    wait_for_diagnosis(&fixture, &id, "waits_for_input");
}

#[test]
fn growing_memory_is_diagnosed_as_a_leak() {
    let fixture = fixtures().remove(0);
    let id = fixture.create(&["--memory", "512"]);
    let leak = "exec perl -e 'while (1) { push @x, \"x\" x 1_000_000; select(undef, undef, undef, 0.1) }'";
    let _leak = start(&fixture, &id, leak);

    wait_for_diagnosis(&fixture, &id, "leaking");
}

#[test]
fn full_disk_is_diagnosed_with_its_usage() {
    let fixture = fixtures().remove(0);
    let id = fixture.create(&["--disk", "32"]);
    let fill = "dd if=/dev/zero of=/workspace/big bs=64k 2>/dev/null; exec sleep 1000";
    let _full = start(&fixture, &id, fill);

    let found = wait_for_diagnosis(&fixture, &id, "disk_full");
    assert!(found["troubles"][0]["saw"].as_str().unwrap().contains(" MiB, "), "{found}");
}

#[test]
fn exhausted_process_limit_is_diagnosed() {
    let fixture = fixtures().remove(0);
    let id = fixture.create(&["--pids", "20"]);
    let fill = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19; do sleep 1000 & done; wait";
    let _full = start(&fixture, &id, fill);

    let found = wait_for_diagnosis(&fixture, &id, "processes_full");
    assert!(found["troubles"][0]["saw"].as_str().unwrap().contains("20 of 20"), "{found}");
}

#[test]
fn stopped_keeper_is_diagnosed() {
    let fixture = fixtures().remove(0);
    let id = fixture.create(&[]);
    let keeper = i32::try_from(keeper_of(&fixture.data()).unwrap()).unwrap();

    kill_process(Pid::from_raw(keeper).unwrap(), Signal::STOP).unwrap();

    wait_for_diagnosis(&fixture, &id, "keeper_silent");
}

#[test]
fn lost_mount_is_diagnosed_with_its_path() {
    let fixture = fixtures().remove(0);
    if !fixture.has_groups() {
        return;
    }
    let id = fixture.create(&[]);
    let keeper = keeper_of(&fixture.data()).unwrap().to_string();

    let unmount = ["-t", &keeper, "-m", "-p", "--", "umount", "-l", "/dev/shm"];
    assert!(Command::new("nsenter").args(unmount).status().unwrap().success());

    let found = wait_for_diagnosis(&fixture, &id, "place_missing");
    assert!(found["troubles"][0]["saw"].as_str().unwrap().contains("/dev/shm"), "{found}");
}

#[test]
fn repeated_timeouts_are_diagnosed() {
    let fixture = fixtures().remove(0);
    let id = fixture.create(&[]);
    for _ in 0..2 {
        let output = fixture.pinfold(&["exec", "--timeout", "200ms", &id, "--", "sleep", "1000"]);
        assert_eq!(output.status.code(), Some(124), "{}", text(&output.stderr));
    }

    wait_for_diagnosis(&fixture, &id, "repeated_timeouts");
}

#[test]
fn network_use_without_a_network_is_diagnosed() {
    let fixture = fixtures().remove(0);
    let id = fixture.create(&[]);
    let words = "echo 'fatal: unable to access: Could not resolve host: example.com' >&2; exit 128";
    fixture.pinfold(&["exec", &id, "--", "sh", "-c", words]);

    wait_for_diagnosis(&fixture, &id, "no_network");
}
