//! With a server and without: the same commands, the same documents, and either can end what the other made.

use std::fs;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;

use crate::ground::{Ground, all_absent, grounds, is_alive, keeper_of, text, until};
use crate::serve::Server;

/// The names of all fields, which are the same however the values differ.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), shape(value))).collect(),
        Value::Array(list) => Value::Array(list.iter().map(shape).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Value::Null,
    }
}

fn lines_of_log(ground: &Ground) -> usize {
    fs::read_to_string(ground.data().join("serve.log")).unwrap().lines().count()
}

#[test]
fn every_document_has_the_same_shape_with_a_server_and_without() {
    for ground in grounds() {
        let server = Server::begin(&ground, &[]);
        let id = ground.create(&["--name", "box", "--label", "a=b c&d"]);
        let commands: [&[&str]; 15] = [
            &["run", "--", "sh", "-c", "echo out; echo err >&2; exit 3"],
            &["exec", &id, "--", "sh", "-c", "echo out; exit 4"],
            &["inspect", "box"],
            &["ps", "--label", "a=b c&d"],
            &["stats"],
            &["stats", "--metrics", "--window", "5m"],
            &["stats", "box"],
            &["health"],
            &["audit"],
            &["events", &id],
            &["token", "ls"],
            &["alert", "ls", "--all"],
            &["alert", "history"],
            &["alert", "deliveries"],
            &["image", "ls"],
        ];
        for command in commands {
            let asked = |more: &'static str| [&[more, "--json"], command].concat();
            let through = ground.pinfold(&asked("--json")[1..]);
            let alone = ground.pinfold(&asked("--local"));
            let document = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap_or_default();

            assert_eq!(through.status.code(), alone.status.code(), "{command:?}: {}", text(&through.stdout));
            let (through, alone) = (document(&through.stdout), document(&alone.stdout));
            assert!(!through.is_null(), "{command:?}");
            if command[0] != "events" {
                assert_eq!(shape(&through), shape(&alone), "{command:?}");
            }
            if command[0] == "run" {
                assert_eq!((&through["stdout"], &through["stderr"]), (&alone["stdout"], &alone["stderr"]));
                assert!(all_absent(&through["receipt"]), "{through}");
            }
        }
        assert_eq!(server.end_with(Signal::TERM), Some(0));
    }
}

#[test]
fn commands_ask_the_server_that_is_there_and_none_that_is_not() {
    for ground in grounds() {
        let server = Server::begin(&ground, &["--log", "debug"]);
        let before = lines_of_log(&ground);
        ground.document(&["stats", "--json"]);
        assert!(lines_of_log(&ground) > before, "the server was not asked");

        server.end_with(Signal::KILL);
        let left = fs::read_to_string(ground.data().join("server.json")).unwrap();
        assert!(left.contains("pid"), "a killed server leaves what it said");

        assert_eq!(ground.document(&["ps", "--json"]), serde_json::json!([]));
        // Another process has that number now: it is not believed either.
        let mut said: Value = serde_json::from_str(&left).unwrap();
        said["pid"] = std::process::id().into();
        fs::write(ground.data().join("server.json"), said.to_string()).unwrap();
        assert_eq!(ground.document(&["ps", "--json"]), serde_json::json!([]));
    }
}

#[test]
fn a_sandbox_of_the_server_is_ended_by_a_command_and_one_of_a_command_by_the_server() {
    for ground in grounds() {
        let alone = ground.create(&["--name", "alone"]);
        let server = Server::begin(&ground, &[]);
        let served = server.create();

        let through = ground.document(&["stop", "--json", "--force", &alone]);
        let beside = ground.document(&["stop", "--local", "--json", "--force", &served]);

        assert_eq!((&through[0]["sandbox_id"], all_absent(&through[0])), (&alone.into(), true), "{through}");
        assert_eq!((&beside[0]["sandbox_id"], all_absent(&beside[0])), (&served.into(), true), "{beside}");
        assert!(ground.is_clean());
    }
}

#[test]
fn a_killed_caller_takes_its_sandbox_along_also_through_a_server() {
    for ground in grounds() {
        let server = Server::begin(&ground, &[]);
        let mut caller =
            ground.command(&["run", "--", "sleep", "100"]).stdout(Stdio::null()).spawn().unwrap();
        until("the sandbox runs", || keeper_of(&ground.data()).is_some_and(is_alive));
        let keeper = keeper_of(&ground.data()).unwrap();

        caller.kill().unwrap();
        caller.wait().unwrap();

        until("the keeper is gone", || !is_alive(keeper));
        until("that is proven", || {
            ground.document(&["ps", "--all", "--json"])[0]["cause"] == "caller_gone" && ground.is_clean()
        });
        drop(server);
    }
}

#[test]
fn a_killed_server_takes_the_sandbox_of_a_run_along() {
    for ground in grounds() {
        let server = Server::begin(&ground, &[]);
        let mut caller = ground.command(&["run", "--", "sleep", "100"]);
        let mut caller = caller.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until("the sandbox runs", || keeper_of(&ground.data()).is_some_and(is_alive));
        let keeper = keeper_of(&ground.data()).unwrap();

        server.end_with(Signal::KILL);

        until("the keeper is gone", || !is_alive(keeper));
        assert_eq!(caller.wait().unwrap().code(), Some(125));
    }
}

#[test]
fn an_interrupt_ends_a_run_through_a_server_and_prints_the_receipt() {
    for ground in grounds() {
        let _server = Server::begin(&ground, &[]);
        let mut command = ground.command(&["run", "--", "sleep", "100"]);
        let caller = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        until("the sandbox runs", || ground.document(&["ps", "--json"])[0]["status"] == "running");

        rustix::process::kill_process(rustix::process::Pid::from_child(&caller), Signal::INT).unwrap();

        let output = caller.wait_with_output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(130), "{said}");
        assert!(said.contains("is gone: stopped_by_user") && said.contains("processes"), "{said}");
        assert!(ground.is_clean());
    }
}

#[test]
fn a_token_that_is_wrong_or_missing_says_what_to_do() {
    let ground = grounds().remove(0);
    let server = Server::begin(&ground, &[]);
    let url = server.address();
    let asked = |token: Option<&str>| {
        let mut command = ground.command(&["ps", "--json"]);
        command.env("PINFOLD_URL", &url);
        if let Some(token) = token {
            command.env("PINFOLD_TOKEN", token);
        }
        let output = command.output().unwrap();
        (output.status.code(), serde_json::from_slice::<Value>(&output.stdout).unwrap())
    };
    let viewer = ground.document(&["token", "create", "--role", "viewer", "--json", "me"]);
    let viewer = viewer["secret"].as_str().unwrap();

    for (token, code, advice) in [
        (None, "unauthorized", "set PINFOLD_TOKEN"),
        (Some("pft_wrong"), "unauthorized", "pinfold token create"),
    ] {
        let (exit, document) = asked(token);
        assert_eq!((exit, &document["error"]["code"]), (Some(1), &code.into()), "{document}");
        assert!(document["error"]["message"].as_str().unwrap().contains(advice), "{document}");
    }
    assert_eq!(asked(Some(viewer)), (Some(0), serde_json::json!([])));
    let refused =
        ground.command(&["create"]).env("PINFOLD_URL", &url).env("PINFOLD_TOKEN", viewer).output().unwrap();
    assert!(text(&refused.stderr).contains("pinfold token create --role"), "{}", text(&refused.stderr));
}

#[test]
fn what_is_piped_in_arrives_whole_through_a_server() {
    use std::io::Write;

    let ground = grounds().remove(0);
    let _server = Server::begin(&ground, &[]);
    let much: Vec<u8> = (0u32..100_000).flat_map(u32::to_le_bytes).collect();
    let mut command = ground.command(&["run", "-i", "--", "cat"]);
    let mut caller = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut pipe, input) = (caller.stdin.take().unwrap(), much.clone());

    let writer = std::thread::spawn(move || pipe.write_all(&input).is_ok());
    let output = caller.wait_with_output().unwrap();

    assert!(writer.join().unwrap() && output.status.success() && output.stdout == much);
}
