//! Callers that disconnect before the answer: the request completes and is logged.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::captured_log::CapturedLog;
use crate::fixture::{Fixture, rules, sh, with_service_config};

/// Sends a request on a separate connection and reads nothing.
async fn send_request(fixture: &Fixture, token: &str, what: &str) -> TcpStream {
    let mut connection = TcpStream::connect(fixture.address).await.unwrap();
    let head = format!("{what} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n");
    connection.write_all(head.as_bytes()).await.unwrap();
    connection
}

#[tokio::test]
async fn stop_completes_and_is_logged_after_its_caller_disconnects() {
    let (reported, _guard) = CapturedLog::start();
    let mut rules = rules();
    // Long enough that no answer comes before the caller disconnects.
    rules.policy.grace_ms = 30_000;
    with_service_config(rules, |fixture| async move {
        let (token, secret) = fixture.token("operator").await;
        let id = fixture.sandbox().await;
        let script = "trap '' TERM; echo deaf; while :; do sleep 1; done";
        let execution = fixture.sh_in_background(&id, sh(script)).await;
        let output = format!("/api/executions/{execution}/output");
        fixture
            .until("it ignores SIGTERM", &output, |it| it["events"][0]["text"].is_string().then_some(()))
            .await;
        let path = format!("/api/sandbox/{id}");

        let caller = send_request(&fixture, &secret, &format!("DELETE {path}?wait=30")).await;
        let begun = |it: &Value| (it["status"]["state"] == "terminating").then_some(());
        fixture.until("the stop has begun", &path, begun).await;
        drop(caller);

        let of_token = |page: &Value| {
            let entries = page["entries"].as_array().unwrap();
            entries.iter().find(|entry| entry["token_id"] == token).cloned()
        };
        let noted = fixture.until("the request is in the audit log", "/api/audit", of_token).await;
        let (what, of) = (json!([noted["method"], noted["path"], noted["status"]]), &noted["sandbox_id"]);
        assert_eq!((what, of), (json!(["DELETE", path, 499]), &json!(id)));
        let lines = reported.lines(&format!("token_id=\"{token}\""));
        assert!(lines.len() == 1 && lines[0].contains("status=499"), "{lines:#?}");
        let gone = fixture.delete(&format!("{path}?force=1")).await;
        assert_eq!((gone.status, &gone.json()["cause"]), (200, &json!("stopped_by_user")));
    })
    .await;
}
