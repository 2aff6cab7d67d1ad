//! The log of a sandbox: paged, streamed, and after its move to the object store.

use std::time::Duration;

use pinfold_api::ErrorCode;
use pinfold_http::ServerConfig;
use pinfold_service::{LogRetention, LoopsConfig};
use pinfold_test_support::until_some;
use serde_json::{Value, json};

use crate::fixture::{Fixture, sh, with_server, with_server_config};

fn texts(page: &Value) -> Vec<String> {
    let entries = page["entries"].as_array().unwrap();
    entries.iter().map(|entry| entry["text"].as_str().unwrap_or_default().to_owned()).collect()
}

fn position_of(texts: &[String], word: &str) -> usize {
    texts.iter().position(|text| text.contains(word)).unwrap_or_else(|| panic!("no {word} in {texts:#?}"))
}

/// Reads all events of a stream: name, id and data.
async fn streamed(fixture: &Fixture, path: &str) -> Vec<(String, String, Value)> {
    let answer = fixture.get(path).await;
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let text = String::from_utf8(answer.bytes.to_vec()).unwrap();
    let field = |event: &str, name: &str| {
        event.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned()
    };
    let events = text.split("\n\n").filter(|event| event.contains("data:"));
    events
        .map(|event| {
            let data = serde_json::from_str(&field(event, "data:")).unwrap();
            (field(event, "event:"), field(event, "id:"), data)
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn log_has_control_entries_and_output_in_order_also_after_stop() {
    with_server(|fixture| async move {
        let id = fixture.sandbox().await;
        fixture.sh(&id, "echo one; echo two >&2").await;
        let path = format!("/api/sandbox/{id}/logs");

        let live = fixture.get(&path).await.json();
        fixture.delete(&format!("/api/sandbox/{id}?force=1")).await;
        let after = fixture.get(&format!("{path}?after={}", live["next"].as_str().unwrap())).await.json();

        let said = texts(&live);
        // Stdout and stderr have no order between them.
        for written in ["one", "two"] {
            let order =
                ["sandbox created", "ready", " started", written, "exited"].map(|it| position_of(&said, it));
            assert!(order.is_sorted(), "{said:#?}");
        }
        assert!(live["last_activity"].is_string() && live["over"] == false);
        let rest = texts(&after);
        assert!(!rest.contains(&"one\n".to_owned()) && after["over"] == true, "{rest:#?}");
        assert!(position_of(&rest, "sandbox ended") == rest.len() - 1, "{rest:#?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn log_stream_resumes_at_its_cursor_and_ends_with_the_sandbox() {
    with_server(|fixture| async move {
        let id = fixture.sandbox().await;
        let execution =
            fixture.sh_in_background(&id, sh("for i in 1 2 3; do echo line $i; sleep 0.1; done")).await;
        let path = format!("/api/sandbox/{id}/logs?follow=1");
        let (reader, following) = (fixture.clone(), path.clone());
        let following = tokio::spawn(async move { streamed(&reader, &following).await });
        let executions = format!("/api/executions/{execution}");
        fixture.until("its end", &executions, |it| it["cause"].is_string().then_some(())).await;

        fixture.delete(&format!("/api/sandbox/{id}?force=1")).await;
        let all = following.await.unwrap();

        let line =
            all.iter().position(|(name, _, data)| name == "stdout" && data["text"] == "line 2\n").unwrap();
        assert!(all.last().unwrap().2["text"].as_str().unwrap().contains("sandbox ended"));
        assert!(all.iter().all(|(name, id, data)| data["seq"] == json!(id) && data["source"] == json!(name)));
        let again = streamed(&fixture, &format!("{path}&after={}", all[line].1)).await;
        assert_eq!(again, all[line + 1..]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn log_is_unchanged_after_moving_to_the_object_store() {
    let often = LogRetention { archive_every: Duration::from_millis(300), ..LogRetention::default() };
    with_server_config(
        ServerConfig {
            loops: LoopsConfig { log_retention: often, ..LoopsConfig::default() },
            ..ServerConfig::default()
        },
        |fixture| async move {
            let id = fixture.sandbox().await;
            let ran =
                fixture.sh(&id, r"echo one; echo two >&2; printf '\377\n'; sleep 0.05; echo three").await;
            let output = format!("/api/executions/{}/output", ran["execution_id"].as_str().unwrap());
            let before = fixture.get(&output).await.json();
            let log = fixture.get(&format!("/api/sandbox/{id}/logs")).await.json();
            let kept = fixture.service.host().provider.output();
            let sandbox = id.parse().unwrap();
            assert!(kept.exists(sandbox).unwrap());

            fixture.delete(&format!("/api/sandbox/{id}?force=1")).await;
            until_some("the log is moved", || async { (!kept.exists(sandbox).unwrap()).then_some(()) }).await;

            assert_eq!(fixture.get(&output).await.json(), before);
            let first = before["events"][0]["seq"].as_u64().unwrap();
            let later = fixture.get(&format!("{output}?after={first}")).await.json();
            assert_eq!(later["events"].as_array().unwrap()[..], before["events"].as_array().unwrap()[1..]);
            let mut events = fixture.client().follow(ran["execution_id"].as_str().unwrap(), 0).await.unwrap();
            let mut followed = Vec::new();
            while let Some(event) = events.next().await.unwrap() {
                followed.push(serde_json::to_value(event).unwrap());
            }
            assert_eq!(json!(followed), before["events"]);
            let whole = fixture.get(&format!("/api/sandbox/{id}/logs")).await.json();
            let known = texts(&log);
            assert_eq!(texts(&whole)[..known.len()], known);
            assert_eq!(whole["over"], true);
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn known_error_patterns_in_logs_get_a_likely_cause() {
    with_server(|fixture| async move {
        let id = fixture.sandbox().await;
        fixture
            .sh(&id, "echo 'fetch: Operation timed out'; echo 'Maximum call stack size exceeded' >&2")
            .await;

        let hints = fixture.get(&format!("/api/sandbox/{id}/logs")).await.json()["hints"].clone();

        let causes: Vec<_> = hints.as_array().unwrap().iter().map(|hint| &hint["likely_cause"]).collect();
        assert_eq!(causes, [&json!("external service hang"), &json!("infinite recursion")]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_log_or_bad_cursor_is_refused() {
    with_server(|fixture| async move {
        let id = fixture.sandbox().await;

        let unknown = fixture.get("/api/sandbox/sbx_01m7h9849weh0tapx1maw3q2yb/logs").await;
        assert_eq!((unknown.status, unknown.code()), (404, ErrorCode::UnknownSandbox));
        let followed = fixture.get("/api/sandbox/sbx_01m7h9849weh0tapx1maw3q2yb/logs?follow=1").await;
        assert_eq!((followed.status, followed.code()), (404, ErrorCode::UnknownSandbox));
        for (query, field) in
            [("after=x", "after"), ("limit=0", "limit"), ("limit=10001", "limit"), ("page=1", "page")]
        {
            let refused = fixture.get(&format!("/api/sandbox/{id}/logs?{query}")).await;
            assert_eq!((refused.status, &refused.json()["error"]["details"]["field"]), (400, &json!(field)));
        }
    })
    .await;
}
