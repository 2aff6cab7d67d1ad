//! `pinfold create` and `pinfold exec`: a sandbox that outlives its maker, used from other processes.

use std::process::Stdio;

use crate::ground::{all_absent, grounds, is_alive, keeper_of, text, until};

#[test]
fn a_sandbox_is_made_used_and_stopped_by_three_processes() {
    for ground in grounds() {
        let id = ground.create(&["--name", "box"]);

        let used = ground.pinfold(&["exec", &id, "--", "sh", "-c", "echo in; echo out >&2; exit 3"]);
        let stopped = ground.document(&["stop", "--json", "box"]);

        assert_eq!(
            (used.status.code(), text(&used.stdout), text(&used.stderr)),
            (Some(3), "in\n".into(), "out\n".into())
        );
        assert_eq!(
            (&stopped[0]["sandbox_id"], &stopped[0]["cause"]),
            (&id.into(), &"stopped_by_user".into())
        );
        assert!(all_absent(&stopped[0]) && ground.is_clean());
    }
}

#[test]
fn it_lives_on_when_its_maker_is_gone_and_through_a_reconcile() {
    for ground in grounds() {
        let id = ground.create(&[]);
        let keeper = keeper_of(&ground.data()).unwrap();
        ground.pinfold(&["exec", &id, "--", "sh", "-c", "echo kept > /workspace/note"]);

        let reconciled = ground.document(&["reconcile", "--json"]);
        let read = ground.pinfold(&["exec", &id, "--", "cat", "/workspace/note"]);

        assert_eq!((&reconciled["unsettled"], &reconciled["bodies"]), (&0.into(), &1.into()), "{reconciled}");
        assert_eq!(text(&read.stdout), "kept\n", "{}", text(&read.stderr));
        assert!(is_alive(keeper));
    }
}

#[test]
fn what_a_sandbox_gives_its_commands_stays_in_it() {
    for ground in grounds() {
        let one = ground.create(&["--env", "A=one", "--env", "B=one", "--workdir", "/tmp"]);
        let two = ground.create(&["--env", "A=two"]);
        let script = "echo $A-$B-$(pwd)";
        let said = |arguments: &[&str]| text(&ground.pinfold(arguments).stdout);

        assert_eq!(said(&["exec", &one, "--", "sh", "-c", script]), "one-one-/tmp\n");
        assert_eq!(said(&["exec", "--env", "B=own", &one, "--", "sh", "-c", script]), "one-own-/tmp\n");
        assert_eq!(said(&["exec", &two, "--", "sh", "-c", script]), "two--/workspace\n");
    }
}

#[test]
fn a_sandbox_that_nobody_waited_for_becomes_ready_by_itself() {
    for ground in grounds() {
        let id = ground.create(&["--no-wait"]);

        until("it is ready", || ground.document(&["ps", "--json"])[0]["status"] == "ready");

        assert_eq!(ground.pinfold(&["exec", &id, "--", "true"]).status.code(), Some(0));
    }
}

#[test]
fn the_document_of_an_execution_has_no_receipt_while_its_sandbox_lives() {
    for ground in grounds() {
        let made = ground.document(&["create", "--json", "--profile", "test-writer", "--task", "tsk_1"]);
        let id = made["id"].as_str().unwrap();

        let document = ground.document(&["exec", "--json", id, "--", "sh", "-c", r"printf '\376'; exit 4"]);

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
fn what_has_ended_says_with_which_cause_when_it_is_asked_to_work() {
    for ground in grounds() {
        let id = ground.create(&[]);
        ground.pinfold(&["stop", "--force", &id]);

        let plain = ground.pinfold(&["exec", &id, "--", "true"]);
        let document = ground.document(&["exec", "--json", &id, "--", "true"]);

        assert_eq!(plain.status.code(), Some(125));
        assert!(
            text(&plain.stderr).contains("has ended or is being ended: stopped_by_user"),
            "{}",
            text(&plain.stderr)
        );
        assert_eq!(document["error"]["code"], "sandbox_gone");
    }
}

#[test]
fn a_profile_and_its_overrides_hold_for_every_execution() {
    for ground in grounds() {
        let id = ground.create(&["--profile", "ELICITATION", "--timeout", "1", "--inactivity-timeout", "1"]);

        let timed_out = ground.document(&[
            "exec",
            "--json",
            &id,
            "--",
            "sh",
            "-c",
            "while :; do echo x; sleep 0.1; done",
        ]);
        let longer = ground.pinfold(&[
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
fn a_sandbox_whose_life_is_over_is_gone_with_that_cause() {
    for ground in grounds() {
        let id = ground.create(&["--max-life", "1s"]);
        let keeper = keeper_of(&ground.data()).unwrap();

        until("its keeper has ended it", || !is_alive(keeper));

        until("it is proven gone", || {
            ground.document(&["ps", "--all", "--json"])[0]["status"] == "terminated"
        });
        let receipt = ground.document(&["stop", "--json", &id]);
        assert_eq!(receipt[0]["cause"], "max_life");
        assert!(ground.is_clean());
    }
}

#[test]
fn an_interrupt_ends_the_execution_and_not_its_sandbox() {
    for ground in grounds() {
        let id = ground.create(&[]);
        let mut command = ground.command(&["exec", "--json", &id, "--", "sh", "-c", "echo up; sleep 100"]);
        let caller = command.stdout(Stdio::piped()).spawn().unwrap();
        until("it runs", || ground.document(&["ps", "--json"])[0]["executions"] == 1);
        until("it has begun", || ground.document(&["ps", "--json"])[0]["status"] == "running");

        let pid = rustix::process::Pid::from_child(&caller);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();

        let output = caller.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", text(&output.stdout));
        assert_eq!(ground.pinfold(&["exec", &id, "--", "true"]).status.code(), Some(0));
    }
}
