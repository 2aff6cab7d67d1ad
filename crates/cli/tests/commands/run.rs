//! `pinfold run`: the command's own end is the program's, and nothing is left.

use std::os::unix::process::CommandExt;
use std::process::Stdio;

use crate::ground::{all_absent, grounds, is_alive, keeper_of, text, until};

#[test]
fn it_exits_as_the_command_did_and_leaves_nothing() {
    for ground in grounds() {
        let output = ground.pinfold(&["run", "--", "sh", "-c", "id -u; echo trouble >&2; exit 7"]);

        assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
        assert_eq!((text(&output.stdout), text(&output.stderr)), ("0\n".into(), "trouble\n".into()));
        assert!(ground.is_clean());
    }
}

#[test]
fn the_document_has_output_timings_usage_and_a_receipt_whose_every_line_says_absent() {
    for ground in grounds() {
        let document = ground.document(&["run", "--json", "--", "echo", "hello"]);

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
fn who_lets_others_go_first_does_so_inside_too() {
    for ground in grounds() {
        let nice = "sed 's/.*) //' /proc/self/stat | cut -d' ' -f17";
        let output = ground.program("nice", &["-n", "5", "pinfold", "run", "--", "sh", "-c", nice]).output();

        let output = output.unwrap();
        assert_eq!(
            (text(&output.stdout), output.status.code()),
            ("5\n".into(), Some(0)),
            "{}",
            text(&output.stderr)
        );
    }
}

#[test]
fn what_was_used_is_told_to_every_user() {
    for ground in grounds() {
        let script =
            "head -c 20m /dev/zero | tail -c 20m > kept; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        let document = ground.document(&["run", "--json", "--", "sh", "-c", script]);

        assert!(document["usage"]["memory_peak_bytes"].as_u64().unwrap() >= 20 << 20, "{document}");
        assert!(document["usage"]["cpu_ms"].as_u64().unwrap() >= 30, "{document}");
        assert!(document["receipt"]["freed_bytes"].as_u64().unwrap() >= 20 << 20, "{document}");
        assert_eq!(document["receipt"]["usage"], document["usage"]);
    }
}

#[test]
fn output_that_is_no_text_is_given_in_base64() {
    for ground in grounds() {
        let document = ground.document(&["run", "--json", "--", "printf", r"\377\0"]);

        assert_eq!(document["stdout_base64"], "/wA=");
        assert!(document.get("stdout").is_none(), "{document}");
        assert_eq!(document["stderr"], "");
    }
}

#[test]
fn exit_codes_tell_who_ended_it() {
    for ground in grounds() {
        let code = |arguments: &[&str]| ground.pinfold(&[&["run"], arguments].concat()).status.code();

        assert_eq!(code(&["--", "no-such-program"]), Some(127));
        assert_eq!(code(&["--", "/etc/passwd"]), Some(126));
        assert_eq!(code(&["--timeout", "1", "--", "sleep", "100"]), Some(124));
        assert_eq!(code(&["--inactivity-timeout", "500ms", "--", "sleep", "100"]), Some(124));
        assert_eq!(code(&["--", "sh", "-c", "kill -9 $$"]), Some(137));
        assert!(ground.is_clean());
    }
}

#[test]
fn environment_and_directory_are_as_asked() {
    for ground in grounds() {
        let script = "echo $A $B; pwd; env | grep -c PINFOLD";
        let arguments =
            ["run", "--env", "A=one", "--env", "B=two=2", "--workdir", "/tmp", "--", "sh", "-c", script];

        assert_eq!(text(&ground.pinfold(&arguments).stdout), "one two=2\n/tmp\n0\n");
    }
}

#[test]
fn a_signal_ends_the_sandbox_and_it_is_proven_gone() {
    for ground in grounds() {
        let caller = ground.command(&["run", "--json", "--", "sleep", "100"]).stdout(Stdio::piped()).spawn();
        let caller = caller.unwrap();
        until("the sandbox runs", || keeper_of(&ground.data()).is_some_and(is_alive));
        let pid = rustix::process::Pid::from_child(&caller);

        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();

        let output = caller.wait_with_output().unwrap();
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((output.status.code(), &document["cause"]), (Some(130), &"stopped_by_user".into()));
        assert!(all_absent(&document["receipt"]) && ground.is_clean());
    }
}

#[test]
fn an_interrupt_from_a_terminal_is_heard_by_the_caller_alone() {
    for ground in grounds() {
        let mut command = ground.command(&["run", "--json", "--", "sleep", "100"]);
        let caller = command.stdout(Stdio::piped()).process_group(0).spawn().unwrap();
        until("the sandbox runs", || keeper_of(&ground.data()).is_some_and(is_alive));
        let group = rustix::process::Pid::from_child(&caller);
        let keeper =
            keeper_of(&ground.data()).and_then(|it| rustix::process::Pid::from_raw(it.cast_signed()));
        assert_ne!(rustix::process::getpgid(keeper).unwrap(), group, "a terminal's signals reach the keeper");

        rustix::process::kill_process_group(group, rustix::process::Signal::INT).unwrap();

        let output = caller.wait_with_output().unwrap();
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((output.status.code(), &document["cause"]), (Some(130), &"stopped_by_user".into()));
        assert!(all_absent(&document["receipt"]) && ground.is_clean());
    }
}

#[test]
fn a_caller_that_is_killed_takes_its_sandbox_along_and_reconcile_clears_the_rest_away() {
    for ground in grounds() {
        let mut caller =
            ground.command(&["run", "--", "sleep", "100"]).stdout(Stdio::null()).spawn().unwrap();
        until("the sandbox runs", || keeper_of(&ground.data()).is_some_and(is_alive));
        let keeper = keeper_of(&ground.data()).unwrap();

        caller.kill().unwrap();
        caller.wait().unwrap();

        until("the keeper is gone", || !is_alive(keeper));
        let reconciled = ground.document(&["reconcile", "--json"]);
        assert_eq!(reconciled["unsettled"], 0, "{reconciled}");
        assert!(ground.is_clean());
    }
}
