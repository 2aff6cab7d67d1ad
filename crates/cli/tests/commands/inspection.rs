//! `logs`, `events`, `inspect`, `rm`, `audit`, tokens, completions and the manual.

use std::io::pipe;
use std::process::Stdio;

use pinfold_test_support::until;

use crate::fixture::{fixtures, text};

#[test]
fn log_escapes_control_characters_unless_raw() {
    for fixture in fixtures() {
        let id = fixture.create(&["--name", "box"]);
        fixture.pinfold(&["exec", &id, "--", "printf", r"a\033[2Jb\n\377\n"]);
        fixture.pinfold(&["stop", "--force", &id]);

        let shown = text(&fixture.pinfold(&["logs", "box"]).stdout);
        let raw = fixture.pinfold(&["logs", "--raw", "--output-only", "box"]).stdout;
        let document = fixture.document(&["logs", "--json", "--output-only", "box"]);

        assert!(shown.contains(r"a\x1b[2Jb") && !shown.contains('\u{1b}'), "{shown}");
        assert!(shown.lines().any(|line| line.starts_with("-- ")), "control entries are shown too: {shown}");
        assert_eq!(raw, b"a\x1b[2Jb\n\xff\n");
        assert_eq!((&document["over"], &document["sandbox_id"]), (&true.into(), &id.into()), "{document}");
        assert!(document["last_activity"].is_string() && document["next"].is_string(), "{document}");
    }
}

#[test]
fn followed_log_ends_when_the_sandbox_is_gone() {
    for fixture in fixtures() {
        let id = fixture.create(&[]);
        let mut command = fixture.command(&["logs", "-f", "--output-only", &id]);
        let reader = command.stdout(Stdio::piped()).spawn().unwrap();

        fixture.pinfold(&["exec", &id, "--", "echo", "one"]);
        fixture.pinfold(&["exec", &id, "--", "echo", "two"]);
        fixture.pinfold(&["stop", "--force", &id]);

        let output = reader.wait_with_output().unwrap();
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "one\ntwo\n".into()));
    }
}

#[test]
fn events_are_ordered_and_can_be_resumed() {
    for fixture in fixtures() {
        let id = fixture.create(&[]);
        fixture.pinfold(&["stop", "--force", &id]);

        let all = fixture.document(&["events", "--json", &id]);
        let all = all.as_array().unwrap();
        let names: Vec<_> = all.iter().map(|event| event["event"].as_str().unwrap()).collect();
        let half = all[all.len() / 2]["seq"].as_u64().unwrap().to_string();
        let rest = fixture.document(&["events", "--json", "--after", &half, &id]);

        assert_eq!(names.first(), Some(&"created"), "{names:?}");
        assert!(names.contains(&"became_ready") && names.len() > 3, "{names:?}");
        assert_eq!(rest.as_array().unwrap().as_slice(), &all[all.len() / 2 + 1..]);
        let line = text(&fixture.pinfold(&["events"]).stdout);
        assert!(line.contains(&id) && line.contains("created"), "{line}");
    }
}

#[test]
fn record_is_deleted_only_when_its_instance_is_gone() {
    for fixture in fixtures() {
        let id = fixture.create(&["--name", "box"]);

        let refused = fixture.document(&["rm", "--json", "box"]);
        fixture.pinfold(&["stop", "--force", "box"]);
        let shown = text(&fixture.pinfold(&["inspect", "box"]).stdout);
        let forgotten = fixture.document(&["rm", "--json", "box"]);
        let unknown = fixture.pinfold(&["inspect", &id]);

        assert_eq!(refused["error"]["code"], "wrong_state", "{refused}");
        assert!(shown.contains("terminated (stopped_by_user)") && shown.contains("is gone"), "{shown}");
        assert_eq!(forgotten["forgotten"][0], id.as_str(), "{forgotten}");
        assert_eq!(unknown.status.code(), Some(1));
        assert!(
            text(&unknown.stderr).contains("list sandboxes with `pinfold ps --all`"),
            "{}",
            text(&unknown.stderr)
        );
    }
}

#[test]
fn audit_of_a_consistent_data_directory_finds_nothing() {
    for fixture in fixtures() {
        fixture.create(&[]);

        let well = fixture.pinfold(&["audit"]);
        let document = fixture.document(&["audit", "--json"]);

        assert_eq!((well.status.code(), text(&well.stdout)), (Some(0), "1 records, 1 instances\n".into()));
        assert_eq!(
            (&document["dry_run"], &document["disagreements"]),
            (&true.into(), &serde_json::json!([]))
        );
    }
}

#[test]
fn token_is_shown_once_and_rejected_when_revoked() {
    for fixture in fixtures() {
        let made = fixture.document(&["token", "create", "--json", "--role", "viewer", "viewer-token"]);
        let id = made["id"].as_str().unwrap();

        let listed = text(&fixture.pinfold(&["token", "ls"]).stdout);
        let revoked = fixture.document(&["token", "revoke", "--json", id]);

        assert!(made["secret"].as_str().unwrap().starts_with("pft_"), "{made}");
        assert!(
            listed.contains(id) && listed.contains("viewer") && listed.contains("viewer-token"),
            "{listed}"
        );
        assert!(!listed.contains(made["secret"].as_str().unwrap()));
        assert!(revoked[0]["revoked_at"].is_string(), "{revoked}");
        until("the list shows it as revoked", || {
            fixture.document(&["token", "ls", "--json"])[0]["revoked_at"].is_string()
        });
    }
}

#[test]
fn closed_standard_output_is_not_an_error() {
    let fixture = fixtures().pop().unwrap();
    let id = fixture.create(&[]);
    let commands: [(&[&str], i32); 14] = [
        (&["ps"], 0),
        (&["ps", "--json"], 0),
        (&["inspect", &id], 0),
        (&["logs", &id], 0),
        (&["logs", "--follow", &id], 0),
        (&["logs", "--follow", "--json", &id], 0),
        (&["events"], 0),
        (&["events", "--follow"], 0),
        (&["events", "--follow", "--json"], 0),
        (&["audit"], 0),
        (&["stats"], 0),
        (&["man"], 0),
        (&["completions", "bash"], 0),
        (&["inspect", "--json", "unknown"], 1),
    ];
    for (arguments, code) in commands {
        let (reader, writer) = pipe().unwrap();
        drop(reader);

        let output = fixture.command(arguments).stdout(writer).output().unwrap();

        let stderr = text(&output.stderr);
        assert_eq!((output.status.code(), stderr.as_str()), (Some(code), ""), "{arguments:?}");
    }
}

#[test]
fn completions_and_manual_contain_every_command() {
    let fixture = fixtures().remove(0);
    for shell in ["bash", "zsh", "fish"] {
        let output = text(&fixture.pinfold(&["completions", shell]).stdout);
        for command in ["inspect", "logs", "token", "audit"] {
            assert!(output.contains(command), "{shell} does not know {command}");
        }
        assert!(!output.contains("Spawn keepers"), "{shell} completes a hidden command");
    }
    let page = text(&fixture.pinfold(&["man"]).stdout);
    assert!(
        page.contains(".TH pinfold") && page.contains("inspect") && !page.contains("__spawner"),
        "{page}"
    );
}
