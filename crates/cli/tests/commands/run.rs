//! `pinfold run`: exit codes, documents, signals, and no leftovers.

use std::os::unix::process::CommandExt;
use std::process::Stdio;

use pinfold_test_support::until;

use crate::fixture::{all_absent, fixtures, is_alive, keeper_of, text};

#[test]
fn run_exits_with_the_commands_code_and_leaves_nothing() {
    for fixture in fixtures() {
        let output = fixture.pinfold(&["run", "--", "sh", "-c", "id -u; echo trouble >&2; exit 7"]);

        assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
        assert_eq!((text(&output.stdout), text(&output.stderr)), ("0\n".into(), "trouble\n".into()));
        assert!(fixture.is_clean());
    }
}

#[test]
fn run_document_has_output_timings_usage_and_an_all_absent_receipt() {
    for fixture in fixtures() {
        let document = fixture.document(&["run", "--json", "--", "echo", "hello"]);

        assert_eq!(document["stdout"], "hello\n");
        assert_eq!((&document["exit_code"], &document["cause"]), (&0.into(), &"completed".into()));
        assert!(document["execution_id"].as_str().unwrap().starts_with("exe_"));
        assert!(all_absent(&document["receipt"]), "{document}");
        assert_eq!(document["receipt"]["sandbox_id"], document["sandbox_id"]);
        assert!(document["receipt"]["verified_at"].as_str().unwrap().ends_with('Z'));
        for timing in ["ready_ms", "first_output_ms", "run_ms", "gone_ms", "total_ms"] {
            assert!(document["timings"][timing].is_u64(), "{timing} of {document}");
        }
        assert!(document["usage"].is_object(), "{document}");
        assert!(document["usage"]["memory_peak_bytes"].as_u64().unwrap() > 0, "{document}");
        assert!(document["usage"]["cpu_ms"].is_u64(), "{document}");
    }
}

#[test]
fn nice_value_of_the_caller_applies_in_the_sandbox() {
    for fixture in fixtures() {
        let nice = "sed 's/.*) //' /proc/self/stat | cut -d' ' -f17";
        // The test itself may run with a nice value of its own; `nice` adds to it.
        let own = fixture.program("nice", &["-n", "5", "sh", "-c", nice]).output().unwrap();
        let output = fixture.program("nice", &["-n", "5", "pinfold", "run", "--", "sh", "-c", nice]).output();

        let output = output.unwrap();
        assert_eq!(
            (text(&output.stdout), output.status.code()),
            (text(&own.stdout), Some(0)),
            "{}",
            text(&output.stderr)
        );
    }
}

#[test]
fn cpu_memory_and_disk_usage_are_reported_also_without_root() {
    for fixture in fixtures() {
        let script =
            "head -c 20m /dev/zero | tail -c 20m > kept; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        let document = fixture.document(&["run", "--json", "--", "sh", "-c", script]);

        assert!(document["usage"]["memory_peak_bytes"].as_u64().unwrap() >= 20 << 20, "{document}");
        assert!(document["usage"]["cpu_ms"].as_u64().unwrap() >= 30, "{document}");
        assert!(document["receipt"]["freed_bytes"].as_u64().unwrap() >= 20 << 20, "{document}");
        assert_eq!(document["receipt"]["usage"], document["usage"]);
    }
}

#[test]
fn output_that_is_not_utf8_is_base64() {
    for fixture in fixtures() {
        let document = fixture.document(&["run", "--json", "--", "printf", r"\377\0"]);

        assert_eq!(document["stdout_base64"], "/wA=");
        assert!(document.get("stdout").is_none(), "{document}");
        assert_eq!(document["stderr"], "");
    }
}

#[test]
fn exit_code_reflects_the_cause() {
    for fixture in fixtures() {
        let code = |arguments: &[&str]| fixture.pinfold(&[&["run"], arguments].concat()).status.code();

        assert_eq!(code(&["--", "no-such-program"]), Some(127));
        assert_eq!(code(&["--", "/etc/passwd"]), Some(126));
        assert_eq!(code(&["--timeout", "1", "--", "sleep", "100"]), Some(124));
        assert_eq!(code(&["--inactivity-timeout", "500ms", "--", "sleep", "100"]), Some(124));
        assert_eq!(code(&["--", "sh", "-c", "kill -9 $$"]), Some(137));
        assert!(fixture.is_clean());
    }
}

#[test]
fn environment_and_workdir_options_are_applied() {
    for fixture in fixtures() {
        let script = "echo $A $B; pwd; env | grep -c PINFOLD";
        let arguments =
            ["run", "--env", "A=one", "--env", "B=two=2", "--workdir", "/tmp", "--", "sh", "-c", script];

        assert_eq!(text(&fixture.pinfold(&arguments).stdout), "one two=2\n/tmp\n0\n");
    }
}

#[test]
fn signal_ends_the_sandbox_which_is_proven_gone() {
    for fixture in fixtures() {
        let caller = fixture.command(&["run", "--json", "--", "sleep", "100"]).stdout(Stdio::piped()).spawn();
        let caller = caller.unwrap();
        until("the sandbox runs", || keeper_of(&fixture.data()).is_some_and(is_alive));
        let pid = rustix::process::Pid::from_child(&caller);

        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();

        let output = caller.wait_with_output().unwrap();
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((output.status.code(), &document["cause"]), (Some(130), &"stopped_by_user".into()));
        assert!(all_absent(&document["receipt"]) && fixture.is_clean());
    }
}

#[test]
fn terminal_interrupt_reaches_only_the_caller() {
    for fixture in fixtures() {
        let mut command = fixture.command(&["run", "--json", "--", "sleep", "100"]);
        let caller = command.stdout(Stdio::piped()).process_group(0).spawn().unwrap();
        until("the sandbox runs", || keeper_of(&fixture.data()).is_some_and(is_alive));
        let group = rustix::process::Pid::from_child(&caller);
        let keeper =
            keeper_of(&fixture.data()).and_then(|it| rustix::process::Pid::from_raw(it.cast_signed()));
        assert_ne!(rustix::process::getpgid(keeper).unwrap(), group, "a terminal's signals reach the keeper");

        rustix::process::kill_process_group(group, rustix::process::Signal::INT).unwrap();

        let output = caller.wait_with_output().unwrap();
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((output.status.code(), &document["cause"]), (Some(130), &"stopped_by_user".into()));
        assert!(all_absent(&document["receipt"]) && fixture.is_clean());
    }
}

#[test]
fn killed_run_ends_its_sandbox_and_reconcile_cleans_up() {
    for fixture in fixtures() {
        let mut caller =
            fixture.command(&["run", "--", "sleep", "100"]).stdout(Stdio::null()).spawn().unwrap();
        until("the sandbox runs", || keeper_of(&fixture.data()).is_some_and(is_alive));
        let keeper = keeper_of(&fixture.data()).unwrap();

        caller.kill().unwrap();
        caller.wait().unwrap();

        until("the keeper is gone", || !is_alive(keeper));
        let reconciled = fixture.document(&["reconcile", "--json"]);
        assert_eq!(reconciled["unsettled"], 0, "{reconciled}");
        assert!(fixture.is_clean());
    }
}

#[test]
fn command_needs_no_double_dash() {
    for fixture in fixtures() {
        let run = fixture.pinfold(&["run", "--memory", "64", "echo", "-n", "--json", "--", "x"]);
        let id = fixture.create(&["--name", "box"]);
        let exec = fixture.pinfold(&["exec", "box", "--env", "A=b", "sh", "-c", "echo $A"]);
        let unknown = fixture.pinfold(&["run", "--no-such-option", "ls"]);

        assert_eq!(
            (text(&run.stdout).as_str(), run.status.code()),
            ("--json -- x", Some(0)),
            "{}",
            text(&run.stderr)
        );
        assert_eq!(text(&exec.stdout), "b\n", "{id}: {}", text(&exec.stderr));
        assert_eq!(unknown.status.code(), Some(2));
    }
}

#[test]
fn name_is_taken_while_its_sandbox_lives() {
    for fixture in fixtures() {
        let id = fixture.create(&["--name", "box"]);

        let second = fixture.document(&["create", "--json", "--name", "box"]);
        fixture.pinfold(&["stop", "--force", "box"]);
        let third = fixture.pinfold(&["create", "--name", "box"]);

        assert_eq!(second["error"]["code"], "name_taken", "{second}");
        assert!(second["error"]["message"].as_str().unwrap().contains(&id), "{second}");
        assert!(third.status.success(), "{}", text(&third.stderr));
    }
}

#[test]
fn inactivity_timeout_can_be_turned_off() {
    let fixture = fixtures().pop().unwrap();
    for off in ["0", "off"] {
        let id = fixture.create(&["--profile", "VALIDATION", "--inactivity-timeout", off]);

        let shown = fixture.document(&["inspect", "--json", &id]);

        assert_eq!(shown["limits"]["inactivity_ms"], serde_json::Value::Null, "{shown}");
    }
}
