//! Callers who do not wait for their answer: what they asked for goes on, and is accounted for.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::ground::{Ground, on_server_under, rules, sh};
use crate::told::Told;

/// Asks over a connection of its own, and reads nothing.
async fn ask(ground: &Ground, token: &str, what: &str) -> TcpStream {
    let mut connection = TcpStream::connect(ground.address).await.unwrap();
    let head = format!("{what} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n");
    connection.write_all(head.as_bytes()).await.unwrap();
    connection
}

#[tokio::test]
async fn a_stop_whose_caller_hangs_up_is_seen_through_noted_and_in_the_log() {
    let (told, _here) = Told::begin();
    let mut rules = rules();
    // So long that nobody answers before the caller is gone.
    rules.policy.grace_ms = 30_000;
    on_server_under(rules, |ground| async move {
        let (token, secret) = ground.token("operator").await;
        let id = ground.sandbox().await;
        let script = "trap '' TERM; echo deaf; while :; do sleep 1; done";
        let execution = ground.sh_in_background(&id, sh(script)).await;
        let output = format!("/api/executions/{execution}/output");
        ground.until("it is deaf", &output, |it| it["events"][0]["text"].is_string().then_some(())).await;
        let path = format!("/api/sandbox/{id}");

        let caller = ask(&ground, &secret, &format!("DELETE {path}?wait=30")).await;
        let begun = |it: &Value| (it["status"]["state"] == "terminating").then_some(());
        ground.until("the stop has begun", &path, begun).await;
        drop(caller);

        let of_token = |page: &Value| {
            let entries = page["entries"].as_array().unwrap();
            entries.iter().find(|entry| entry["token_id"] == token).cloned()
        };
        let noted = ground.until("it is noted", "/api/audit", of_token).await;
        let (what, of) = (json!([noted["method"], noted["path"], noted["status"]]), &noted["sandbox_id"]);
        assert_eq!((what, of), (json!(["DELETE", path, 499]), &json!(id)));
        let lines = told.lines(&format!("token_id=\"{token}\""));
        assert!(lines.len() == 1 && lines[0].contains("status=499"), "{lines:#?}");
        let gone = ground.delete(&format!("{path}?force=1")).await;
        assert_eq!((gone.status, &gone.json()["cause"]), (200, &json!("stopped_by_user")));
    })
    .await;
}
