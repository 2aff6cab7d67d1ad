//! `pinfold create` and `pinfold exec`: a sandbox that outlives its creator and is used from other processes.

use std::process::Stdio;

use pinfold_test_support::until;

use crate::fixture::{all_absent, fixtures, is_alive, keeper_of, text};

#[test]
fn sandbox_can_be_created_used_and_stopped_by_different_processes() {
    for fixture in fixtures() {
        let id = fixture.create(&["--name", "box"]);

        let used = fixture.pinfold(&["exec", &id, "--", "sh", "-c", "echo in; echo out >&2; exit 3"]);
        let stopped = fixture.document(&["stop", "--json", "box"]);

        assert_eq!(
            (used.status.code(), text(&used.stdout), text(&used.stderr)),
            (Some(3), "in\n".into(), "out\n".into())
        );
        assert_eq!(
            (&stopped[0]["sandbox_id"], &stopped[0]["cause"]),
            (&id.into(), &"stopped_by_user".into())
        );
        assert!(all_absent(&stopped[0]) && fixture.is_clean());
    }
}

#[test]
fn sandbox_survives_its_creator_and_a_reconcile() {
    for fixture in fixtures() {
        let id = fixture.create(&[]);
        let keeper = keeper_of(&fixture.data()).unwrap();
        fixture.pinfold(&["exec", &id, "--", "sh", "-c", "echo kept > /workspace/note"]);

        let reconciled = fixture.document(&["reconcile", "--json"]);
        let read = fixture.pinfold(&["exec", &id, "--", "cat", "/workspace/note"]);

        assert_eq!(
            (&reconciled["unsettled"], &reconciled["instances"]),
            (&0.into(), &1.into()),
            "{reconciled}"
        );
        assert_eq!(text(&read.stdout), "kept\n", "{}", text(&read.stderr));
        assert!(is_alive(keeper));
    }
}

#[test]
fn environment_and_workdir_of_a_sandbox_apply_to_its_commands_only() {
    for fixture in fixtures() {
        let one = fixture.create(&["--env", "A=one", "--env", "B=one", "--workdir", "/tmp"]);
        let two = fixture.create(&["--env", "A=two"]);
        let script = "echo $A-$B-$(pwd)";
        let output = |arguments: &[&str]| text(&fixture.pinfold(arguments).stdout);

        assert_eq!(output(&["exec", &one, "--", "sh", "-c", script]), "one-one-/tmp\n");
        assert_eq!(output(&["exec", "--env", "B=own", &one, "--", "sh", "-c", script]), "one-own-/tmp\n");
        assert_eq!(output(&["exec", &two, "--", "sh", "-c", script]), "two--/workspace\n");
    }
}

#[test]
fn sandbox_created_without_waiting_becomes_ready() {
    for fixture in fixtures() {
        let id = fixture.create(&["--no-wait"]);

        until("it is ready", || fixture.document(&["ps", "--json"])[0]["status"] == "ready");

        assert_eq!(fixture.pinfold(&["exec", &id, "--", "true"]).status.code(), Some(0));
    }
}

#[test]
fn exec_document_has_no_receipt_while_the_sandbox_runs() {
    for fixture in fixtures() {
        let made = fixture.document(&["create", "--json", "--profile", "test-writer", "--task", "tsk_1"]);
        let id = made["id"].as_str().unwrap();

        let document = fixture.document(&["exec", "--json", id, "--", "sh", "-c", r"printf '\376'; exit 4"]);

        assert_eq!(
            (&made["agent_type"], &made["status"]["state"]),
            (&"TEST_WRITER".into(), &"ready".into()),
            "{made}"
        );
        assert_eq!(
            (&made["task_id"], &made["limits"]["memory_mb"]),
            (&"tsk_1".into(), &512.into()),
            "{made}"
        );
        assert_eq!((&document["exit_code"], &document["stdout_base64"]), (&4.into(), &"/g==".into()));
        assert!(document["receipt"].is_null() && document["timings"]["run_ms"].is_u64(), "{document}");
    }
}

#[test]
fn exec_in_an_ended_sandbox_reports_the_cause() {
    for fixture in fixtures() {
        let id = fixture.create(&[]);
        fixture.pinfold(&["stop", "--force", &id]);

        let plain = fixture.pinfold(&["exec", &id, "--", "true"]);
        let document = fixture.document(&["exec", "--json", &id, "--", "true"]);

        assert_eq!(plain.status.code(), Some(125));
        assert!(
            text(&plain.stderr).contains("has ended or is being stopped: stopped_by_user"),
            "{}",
            text(&plain.stderr)
        );
        assert_eq!(document["error"]["code"], "sandbox_gone");
    }
}

#[test]
fn profile_and_overrides_apply_to_every_execution() {
    for fixture in fixtures() {
        let id = fixture.create(&["--profile", "ELICITATION", "--timeout", "1", "--inactivity-timeout", "1"]);

        let timed_out = fixture.document(&[
            "exec",
            "--json",
            &id,
            "--",
            "sh",
            "-c",
            "while :; do echo x; sleep 0.1; done",
        ]);
        let longer = fixture.pinfold(&[
            "exec",
            "--timeout",
            "20",
            "--inactivity-timeout",
            "20",
            &id,
            "--",
            "sleep",
            "1.3",
        ]);

        assert_eq!(timed_out["cause"], "time_limit");
        assert_eq!(longer.status.code(), Some(0), "{}", text(&longer.stderr));
    }
}

#[test]
fn sandbox_past_its_max_life_ends_with_that_cause() {
    for fixture in fixtures() {
        let id = fixture.create(&["--max-life", "1s"]);
        let keeper = keeper_of(&fixture.data()).unwrap();

        until("its keeper has ended it", || !is_alive(keeper));

        until("it is proven gone", || {
            fixture.document(&["ps", "--all", "--json"])[0]["status"] == "terminated"
        });
        let receipt = fixture.document(&["stop", "--json", &id]);
        assert_eq!(receipt[0]["cause"], "max_life");
        assert!(fixture.is_clean());
    }
}

#[test]
fn interrupt_ends_the_execution_but_not_the_sandbox() {
    for fixture in fixtures() {
        let id = fixture.create(&[]);
        let mut command = fixture.command(&["exec", "--json", &id, "--", "sh", "-c", "echo up; sleep 100"]);
        let caller = command.stdout(Stdio::piped()).spawn().unwrap();
        until("it runs", || fixture.document(&["ps", "--json"])[0]["executions"] == 1);
        until("it has begun", || fixture.document(&["ps", "--json"])[0]["status"] == "running");

        let pid = rustix::process::Pid::from_child(&caller);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();

        let output = caller.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", text(&output.stdout));
        assert_eq!(fixture.pinfold(&["exec", &id, "--", "true"]).status.code(), Some(0));
    }
}
