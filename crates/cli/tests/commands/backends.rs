//! The same commands with and without a server: same documents, and each can stop the other's sandboxes.

use std::fs;
use std::process::Stdio;

use pinfold_test_support::until;
use rustix::process::Signal;
use serde_json::Value;

use crate::fixture::{Fixture, all_absent, fixtures, is_alive, keeper_of, text};
use crate::serve::Server;

/// The structure of a document: field names without values.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), shape(value))).collect(),
        Value::Array(list) => Value::Array(list.iter().map(shape).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Value::Null,
    }
}

fn lines_of_log(fixture: &Fixture) -> usize {
    fs::read_to_string(fixture.data().join("serve.log")).unwrap().lines().count()
}

#[test]
fn every_document_has_the_same_shape_with_a_server_and_without() {
    for fixture in fixtures() {
        let server = Server::begin(&fixture, &[]);
        let id = fixture.create(&["--name", "box", "--label", "a=b c&d"]);
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
            let with = |more: &'static str| [&[more, "--json"], command].concat();
            let through = fixture.pinfold(&with("--json")[1..]);
            let alone = fixture.pinfold(&with("--local"));
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
fn commands_use_a_live_server_and_ignore_a_dead_one() {
    for fixture in fixtures() {
        let server = Server::begin(&fixture, &["--log", "debug"]);
        let before = lines_of_log(&fixture);
        fixture.document(&["stats", "--json"]);
        assert!(lines_of_log(&fixture) > before, "the command did not use the server");

        server.end_with(Signal::KILL);
        let left = fs::read_to_string(fixture.data().join("server.json")).unwrap();
        assert!(left.contains("pid"), "a killed server leaves its server.json");

        assert_eq!(fixture.document(&["ps", "--json"]), serde_json::json!([]));
        // A reused pid does not count as the server either.
        let mut server_file: Value = serde_json::from_str(&left).unwrap();
        server_file["pid"] = std::process::id().into();
        fs::write(fixture.data().join("server.json"), server_file.to_string()).unwrap();
        assert_eq!(fixture.document(&["ps", "--json"]), serde_json::json!([]));
    }
}

#[test]
fn server_and_command_can_stop_each_others_sandboxes() {
    for fixture in fixtures() {
        let alone = fixture.create(&["--name", "alone"]);
        let server = Server::begin(&fixture, &[]);
        let served = server.create();

        let through = fixture.document(&["stop", "--json", "--force", &alone]);
        let beside = fixture.document(&["stop", "--local", "--json", "--force", &served]);

        assert_eq!((&through[0]["sandbox_id"], all_absent(&through[0])), (&alone.into(), true), "{through}");
        assert_eq!((&beside[0]["sandbox_id"], all_absent(&beside[0])), (&served.into(), true), "{beside}");
        assert!(fixture.is_clean());
    }
}

#[test]
fn killed_run_ends_its_sandbox_also_through_a_server() {
    for fixture in fixtures() {
        let server = Server::begin(&fixture, &[]);
        let mut caller =
            fixture.command(&["run", "--", "sleep", "100"]).stdout(Stdio::null()).spawn().unwrap();
        until("the sandbox runs", || keeper_of(&fixture.data()).is_some_and(is_alive));
        let keeper = keeper_of(&fixture.data()).unwrap();

        caller.kill().unwrap();
        caller.wait().unwrap();

        until("the keeper is gone", || !is_alive(keeper));
        until("it is proven gone", || {
            fixture.document(&["ps", "--all", "--json"])[0]["cause"] == "caller_gone" && fixture.is_clean()
        });
        drop(server);
    }
}

#[test]
fn killed_server_ends_the_sandbox_of_a_run() {
    for fixture in fixtures() {
        let server = Server::begin(&fixture, &[]);
        let mut caller = fixture.command(&["run", "--", "sleep", "100"]);
        let mut caller = caller.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until("the sandbox runs", || keeper_of(&fixture.data()).is_some_and(is_alive));
        let keeper = keeper_of(&fixture.data()).unwrap();

        server.end_with(Signal::KILL);

        until("the keeper is gone", || !is_alive(keeper));
        assert_eq!(caller.wait().unwrap().code(), Some(125));
    }
}

#[test]
fn an_interrupt_ends_a_run_through_a_server_and_prints_the_receipt() {
    for fixture in fixtures() {
        let _server = Server::begin(&fixture, &[]);
        let mut command = fixture.command(&["run", "--", "sleep", "100"]);
        let caller = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        until("the sandbox runs", || fixture.document(&["ps", "--json"])[0]["status"] == "running");

        rustix::process::kill_process(rustix::process::Pid::from_child(&caller), Signal::INT).unwrap();

        let output = caller.wait_with_output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(130), "{stderr}");
        assert!(stderr.contains("is gone: stopped_by_user") && stderr.contains("processes"), "{stderr}");
        assert!(fixture.is_clean());
    }
}

#[test]
fn wrong_or_missing_token_is_an_error_with_advice() {
    let fixture = fixtures().remove(0);
    let server = Server::begin(&fixture, &[]);
    let url = server.address();
    let ps_with = |token: Option<&str>| {
        let mut command = fixture.command(&["ps", "--json"]);
        command.env("PINFOLD_URL", &url);
        if let Some(token) = token {
            command.env("PINFOLD_TOKEN", token);
        }
        let output = command.output().unwrap();
        (output.status.code(), serde_json::from_slice::<Value>(&output.stdout).unwrap())
    };
    let viewer = fixture.document(&["token", "create", "--role", "viewer", "--json", "me"]);
    let viewer = viewer["secret"].as_str().unwrap();

    for (token, code, advice) in [
        (None, "unauthorized", "set PINFOLD_TOKEN"),
        (Some("pft_wrong"), "unauthorized", "pinfold token create"),
    ] {
        let (exit, document) = ps_with(token);
        assert_eq!((exit, &document["error"]["code"]), (Some(1), &code.into()), "{document}");
        assert!(document["error"]["message"].as_str().unwrap().contains(advice), "{document}");
    }
    assert_eq!(ps_with(Some(viewer)), (Some(0), serde_json::json!([])));
    let refused =
        fixture.command(&["create"]).env("PINFOLD_URL", &url).env("PINFOLD_TOKEN", viewer).output().unwrap();
    assert!(text(&refused.stderr).contains("pinfold token create --role"), "{}", text(&refused.stderr));
}

#[test]
fn piped_input_arrives_complete_through_a_server() {
    use std::io::Write;

    let fixture = fixtures().remove(0);
    let _server = Server::begin(&fixture, &[]);
    let much: Vec<u8> = (0u32..100_000).flat_map(u32::to_le_bytes).collect();
    let mut command = fixture.command(&["run", "-i", "--", "cat"]);
    let mut caller = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut pipe, input) = (caller.stdin.take().unwrap(), much.clone());

    let writer = std::thread::spawn(move || pipe.write_all(&input).is_ok());
    let output = caller.wait_with_output().unwrap();

    assert!(writer.join().unwrap() && output.status.success() && output.stdout == much);
}
