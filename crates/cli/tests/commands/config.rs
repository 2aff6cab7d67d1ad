//! `pinfold config`, and refusal of invalid configuration.

use std::fs;

use pinfold_client::ServerFile;
use serde_json::{Value, json};

use crate::fixture::{Fixture, fixtures, text};
use crate::serve::Server;

fn write(fixture: &Fixture, settings: &str) {
    fs::write(fixture.data().join("pinfold.toml"), settings).unwrap();
}

fn shown<'a>(document: &'a Value, key: &str) -> &'a Value {
    let settings = document["settings"].as_array().unwrap();
    settings.iter().find(|it| it["key"] == key).unwrap_or_else(|| panic!("no {key} in {document}"))
}

#[test]
fn config_show_prints_every_value_with_its_origin() {
    for fixture in fixtures() {
        write(
            &fixture,
            "[requests]\nrate = 5\nburst = 6\n[logs]\naccess_key_id = \"a\"\nsecret_access_key = \"s3cr3t\"\n",
        );

        let asked =
            fixture.command(&["config", "show", "--json"]).env("PINFOLD_REQUESTS_BURST", "7").output();
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
            fixture.command(&["config", "show"]).env("PINFOLD_LOGS_SECRET_ACCESS_KEY", "s3cr3t2").output();
        for output in [asked.stdout, plain.unwrap().stdout] {
            assert!(!text(&output).contains("s3cr3t"), "{}", text(&output));
        }
    }
}

#[test]
fn invalid_configuration_is_refused_before_anything_starts() {
    for fixture in fixtures() {
        write(&fixture, "[server]\nlisen = \"127.0.0.1:0\"\n");

        let unknown = fixture.pinfold(&["serve"]);
        write(&fixture, "");
        let variable = fixture.command(&["serve"]).env("PINFOLD_SANDBOXES_IDLE", "soon").output().unwrap();
        let missing = fixture.pinfold(&["serve", "--config", "/nonexistent/pinfold.toml"]);

        for (refused, expected) in [
            (&unknown, "pinfold.toml:2: unknown field `lisen`, expected one of `listen`"),
            (&variable, "PINFOLD_SANDBOXES_IDLE"),
            (&missing, "/nonexistent/pinfold.toml"),
        ] {
            let output = text(&refused.stderr);
            assert!(refused.status.code() == Some(2) && output.contains(expected), "{output}");
        }
        assert!(ServerFile::read(&fixture.data()).unwrap().is_none());
        assert!(!fixture.data().join("store").exists());
    }
}

#[test]
fn server_and_commands_both_apply_the_configuration() {
    for fixture in fixtures() {
        write(
            &fixture,
            "[admission]\nsandboxes = 1\n[sandboxes]\nidle = \"3m\"\n[profiles.validation]\nmemory_mb = 96\n",
        );
        let server = Server::begin(&fixture, &[]);

        let request = serde_json::from_value(json!({ "agent_type": "VALIDATION" })).unwrap();
        let made = server.ask(async |client| client.create(&request).await.unwrap());
        let full = server.ask(async |client| client.create(&request).await.unwrap_err());
        let beside = fixture.pinfold(&["create"]);
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

#[test]
fn agent_timeouts_in_milliseconds_are_read_from_the_environment() {
    let fixture = fixtures().pop().unwrap();
    let asked = |variables: &[(&str, &str)]| {
        fixture.command(&["config", "show", "--json"]).envs(variables.iter().copied()).output().unwrap()
    };

    let shown = asked(&[("AGENT_INACTIVITY_TIMEOUT_MS", "45000"), ("AGENT_MAX_WAIT_TIME_MS", "90000")]);
    let refused = asked(&[("AGENT_MAX_WAIT_TIME_MS", "soon")]);

    let document: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown_value(&document, "agents.inactivity"), "45s");
    assert_eq!(shown_value(&document, "agents.timeout"), "90s");
    let message = text(&refused.stdout);
    assert!(message.contains("`soon` is not a whole number of milliseconds"), "{message}");
    assert!(message.contains("AGENT_MAX_WAIT_TIME_MS"), "{message}");
}

fn shown_value(document: &Value, key: &str) -> String {
    shown(document, key)["value"].as_str().unwrap().to_owned()
}
