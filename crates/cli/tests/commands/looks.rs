//! Looking at what is there and at what was: `logs`, `events`, `inspect`, `rm`, `audit`, and what shells are told.

use std::io::pipe;
use std::process::Stdio;

use crate::ground::{grounds, text, until};

#[test]
fn a_log_cannot_move_the_cursor_unless_it_is_asked_for_raw() {
    for ground in grounds() {
        let id = ground.create(&["--name", "box"]);
        ground.pinfold(&["exec", &id, "--", "printf", r"a\033[2Jb\n\377\n"]);
        ground.pinfold(&["stop", "--force", &id]);

        let shown = text(&ground.pinfold(&["logs", "box"]).stdout);
        let raw = ground.pinfold(&["logs", "--raw", "--output-only", "box"]).stdout;
        let document = ground.document(&["logs", "--json", "--output-only", "box"]);

        assert!(shown.contains(r"a\x1b[2Jb") && !shown.contains('\u{1b}'), "{shown}");
        assert!(
            shown.lines().any(|line| line.starts_with("-- ")),
            "what was done to it is told too: {shown}"
        );
        assert_eq!(raw, b"a\x1b[2Jb\n\xff\n");
        assert_eq!((&document["over"], &document["sandbox_id"]), (&true.into(), &id.into()), "{document}");
        assert!(document["last_activity"].is_string() && document["next"].is_string(), "{document}");
    }
}

#[test]
fn a_log_is_followed_until_the_sandbox_is_gone() {
    for ground in grounds() {
        let id = ground.create(&[]);
        let mut command = ground.command(&["logs", "-f", "--output-only", &id]);
        let reader = command.stdout(Stdio::piped()).spawn().unwrap();

        ground.pinfold(&["exec", &id, "--", "echo", "one"]);
        ground.pinfold(&["exec", &id, "--", "echo", "two"]);
        ground.pinfold(&["stop", "--force", &id]);

        let output = reader.wait_with_output().unwrap();
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "one\ntwo\n".into()));
    }
}

#[test]
fn events_tell_what_happened_in_its_order_and_can_be_read_on() {
    for ground in grounds() {
        let id = ground.create(&[]);
        ground.pinfold(&["stop", "--force", &id]);

        let all = ground.document(&["events", "--json", &id]);
        let all = all.as_array().unwrap();
        let names: Vec<_> = all.iter().map(|event| event["event"].as_str().unwrap()).collect();
        let half = all[all.len() / 2]["seq"].as_u64().unwrap().to_string();
        let rest = ground.document(&["events", "--json", "--after", &half, &id]);

        assert_eq!(names.first(), Some(&"created"), "{names:?}");
        assert!(names.contains(&"became_ready") && names.len() > 3, "{names:?}");
        assert_eq!(rest.as_array().unwrap().as_slice(), &all[all.len() / 2 + 1..]);
        let line = text(&ground.pinfold(&["events"]).stdout);
        assert!(line.contains(&id) && line.contains("created"), "{line}");
    }
}

#[test]
fn a_record_is_forgotten_only_when_its_body_is_gone() {
    for ground in grounds() {
        let id = ground.create(&["--name", "box"]);

        let refused = ground.document(&["rm", "--json", "box"]);
        ground.pinfold(&["stop", "--force", "box"]);
        let shown = text(&ground.pinfold(&["inspect", "box"]).stdout);
        let forgotten = ground.document(&["rm", "--json", "box"]);
        let unknown = ground.pinfold(&["inspect", &id]);

        assert_eq!(refused["error"]["code"], "wrong_state", "{refused}");
        assert!(shown.contains("terminated (stopped_by_user)") && shown.contains("is gone"), "{shown}");
        assert_eq!(forgotten["forgotten"][0], id.as_str(), "{forgotten}");
        assert_eq!(unknown.status.code(), Some(1));
        assert!(text(&unknown.stderr).contains("`pinfold ps --all` lists them"), "{}", text(&unknown.stderr));
    }
}

#[test]
fn an_audit_of_a_sound_place_finds_nothing_to_repair() {
    for ground in grounds() {
        ground.create(&[]);

        let well = ground.pinfold(&["audit"]);
        let document = ground.document(&["audit", "--json"]);

        assert_eq!((well.status.code(), text(&well.stdout)), (Some(0), "1 records, 1 bodies\n".into()));
        assert_eq!(
            (&document["dry_run"], &document["disagreements"]),
            (&true.into(), &serde_json::json!([]))
        );
    }
}

#[test]
fn a_token_is_told_once_and_worthless_when_it_is_revoked() {
    for ground in grounds() {
        let made = ground.document(&["token", "create", "--json", "--role", "viewer", "somebody"]);
        let id = made["id"].as_str().unwrap();

        let listed = text(&ground.pinfold(&["token", "ls"]).stdout);
        let revoked = ground.document(&["token", "revoke", "--json", id]);

        assert!(made["secret"].as_str().unwrap().starts_with("pft_"), "{made}");
        assert!(listed.contains(id) && listed.contains("viewer") && listed.contains("somebody"), "{listed}");
        assert!(!listed.contains(made["secret"].as_str().unwrap()));
        assert!(revoked[0]["revoked_at"].is_string(), "{revoked}");
        until("it stays so", || ground.document(&["token", "ls", "--json"])[0]["revoked_at"].is_string());
    }
}

#[test]
fn who_has_seen_enough_and_is_gone_breaks_nothing() {
    let ground = grounds().pop().unwrap();
    let id = ground.create(&[]);
    let asked: [(&[&str], i32); 14] = [
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
        (&["inspect", "--json", "nobody"], 1),
    ];
    for (arguments, code) in asked {
        let (reader, writer) = pipe().unwrap();
        drop(reader);

        let output = ground.command(arguments).stdout(writer).output().unwrap();

        let said = text(&output.stderr);
        assert_eq!((output.status.code(), said.as_str()), (Some(code), ""), "{arguments:?}");
    }
}

#[test]
fn shells_and_man_are_told_every_command() {
    let ground = grounds().remove(0);
    for shell in ["bash", "zsh", "fish"] {
        let told = text(&ground.pinfold(&["completions", shell]).stdout);
        for command in ["inspect", "logs", "token", "audit"] {
            assert!(told.contains(command), "{shell} does not know {command}");
        }
        assert!(!told.contains("Give birth to keepers"), "{shell} is told what nobody types");
    }
    let page = text(&ground.pinfold(&["man"]).stdout);
    assert!(
        page.contains(".TH pinfold") && page.contains("inspect") && !page.contains("__nursery"),
        "{page}"
    );
}
