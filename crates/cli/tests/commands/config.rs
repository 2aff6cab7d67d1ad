//! What is configured: shown with where it comes from, and refused before anything starts.

use std::fs;

use pinfold_client::ServerFile;
use serde_json::{Value, json};

use crate::ground::{Ground, grounds, text};
use crate::serve::Server;

fn write(ground: &Ground, settings: &str) {
    fs::write(ground.data().join("pinfold.toml"), settings).unwrap();
}

fn shown<'a>(document: &'a Value, key: &str) -> &'a Value {
    let settings = document["settings"].as_array().unwrap();
    settings.iter().find(|it| it["key"] == key).unwrap_or_else(|| panic!("no {key} in {document}"))
}

#[test]
fn each_value_is_shown_with_where_it_comes_from() {
    for ground in grounds() {
        write(
            &ground,
            "[requests]\nrate = 5\nburst = 6\n[logs]\naccess_key_id = \"a\"\nsecret_access_key = \"s3cr3t\"\n",
        );

        let asked = ground.command(&["config", "show", "--json"]).env("PINFOLD_REQUESTS_BURST", "7").output();
        let asked = asked.unwrap();

        let document: Value = serde_json::from_slice(&asked.stdout).unwrap();
        assert_eq!(
            (&shown(&document, "requests.rate")["value"], &shown(&document, "requests.rate")["from"]),
            (&json!(5), &json!("file"))
        );
        assert_eq!(shown(&document, "requests.burst")["value"], 7);
        assert_eq!(shown(&document, "requests.burst")["from"], "environment");
        assert_eq!(shown(&document, "sandboxes.idle")["from"], "default");
        let plain =
            ground.command(&["config", "show"]).env("PINFOLD_LOGS_SECRET_ACCESS_KEY", "s3cr3t2").output();
        for output in [asked.stdout, plain.unwrap().stdout] {
            assert!(!text(&output).contains("s3cr3t"), "{}", text(&output));
        }
    }
}

#[test]
fn what_cannot_be_is_refused_and_nothing_is_started() {
    for ground in grounds() {
        write(&ground, "[server]\nlisen = \"127.0.0.1:0\"\n");

        let unknown = ground.pinfold(&["serve"]);
        write(&ground, "");
        let variable = ground.command(&["serve"]).env("PINFOLD_SANDBOXES_IDLE", "soon").output().unwrap();
        let missing = ground.pinfold(&["serve", "--config", "/nonexistent/pinfold.toml"]);

        for (refused, expected) in [
            (&unknown, "pinfold.toml:2: unknown field `lisen`, expected one of `listen`"),
            (&variable, "PINFOLD_SANDBOXES_IDLE"),
            (&missing, "/nonexistent/pinfold.toml"),
        ] {
            let told = text(&refused.stderr);
            assert!(refused.status.code() == Some(2) && told.contains(expected), "{told}");
        }
        assert!(ServerFile::read(&ground.data()).unwrap().is_none());
        assert!(!ground.data().join("store").exists());
    }
}

#[test]
fn a_server_and_commands_beside_it_heed_what_is_configured() {
    for ground in grounds() {
        write(
            &ground,
            "[admission]\nsandboxes = 1\n[sandboxes]\nidle = \"3m\"\n[profiles.validation]\nmemory_mb = 96\n",
        );
        let server = Server::begin(&ground, &[]);

        let wish = serde_json::from_value(json!({ "agent_type": "VALIDATION" })).unwrap();
        let made = server.ask(async |client| client.create(&wish).await.unwrap());
        let full = server.ask(async |client| client.create(&wish).await.unwrap_err());
        let beside = ground.pinfold(&["create"]);
        let stats = server.ask(async |client| client.stats().await.unwrap());

        assert_eq!((stats.quotas.sandboxes, stats.present, stats.ages.under_1_minute), (Some(1), 1, 1));
        assert_eq!((made.limits.memory_mb, made.limits.idle_ms), (Some(96), Some(180_000)));
        assert!(full.to_string().contains("limit reached"), "{full}");
        assert!(
            !beside.status.success() && text(&beside.stderr).contains("limit reached"),
            "{}",
            text(&beside.stderr)
        );
    }
}
