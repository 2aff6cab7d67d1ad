//! Executions: input, signals, cancellation, queueing and background.

use pinfold_api::ErrorCode;
use serde_json::json;

use crate::fixture::{sh, with_server};

#[tokio::test(flavor = "multi_thread")]
async fn command_reads_stdin_from_its_request() {
    with_server(|fixture| async move {
        let id = fixture.sandbox().await;
        let text = "a line\n".repeat(50_000);
        let body = json!({ "command": ["wc", "-c"], "stdin": text });

        let ran = fixture.post(&format!("/api/sandbox/{id}/exec"), body).await.json();

        assert_eq!(ran["stdout"].as_str().unwrap().trim(), text.len().to_string());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn background_command_takes_input_and_keeps_output() {
    with_server(|fixture| async move {
        let id = fixture.sandbox().await;
        let began = json!({ "command": ["cat"], "interactive": true });
        let execution = fixture.sh_in_background(&id, began).await;
        let path = format!("/api/executions/{execution}");
        fixture.until("it runs", &path, |it| it["started_at"].is_string().then_some(())).await;

        let first = fixture.post(&format!("{path}/stdin"), json!({ "text": "one\n" })).await.json();
        let again = fixture.post(&format!("{path}/stdin"), json!({ "text": "one\n", "at": 0 })).await.json();
        let last = json!({ "base64": "dHdvCg==", "close": true });
        let last = fixture.post(&format!("{path}/stdin"), last).await.json();

        assert_eq!(
            (&first["accepted"], &again["accepted"], &last["accepted"]),
            (&json!(4), &json!(4), &json!(8))
        );
        fixture.until("its end", &path, |it| it["cause"].is_string().then_some(())).await;
        let output = fixture.get(&format!("{path}/output")).await.json();
        let texts = output["events"].as_array().unwrap().iter().filter_map(|it| it["text"].as_str());
        assert_eq!(texts.collect::<String>(), "one\ntwo\n");
        let late = fixture.post(&format!("{path}/stdin"), json!({ "text": "x" })).await;
        assert_eq!((late.status, late.code()), (409, ErrorCode::WrongState));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_reaches_the_command() {
    with_server(|fixture| async move {
        let id = fixture.sandbox().await;
        let script = "trap 'echo caught; exit 7' USR1; echo ready; while :; do sleep 0.05; done";
        let execution = fixture.sh_in_background(&id, sh(script)).await;
        let path = format!("/api/executions/{execution}");
        let output = format!("{path}/output");
        fixture.until("it is ready", &output, |it| it["events"][0]["text"].is_string().then_some(())).await;

        let sent = fixture.post(&format!("{path}/signal"), json!({ "signal": "SIGUSR1" })).await;

        assert_eq!(sent.status, 204);
        let code = fixture.until("its end", &path, |it| it["exit_code"].as_i64()).await;
        assert_eq!(code, 7);
        let late = fixture.post(&format!("{path}/signal"), json!({ "signal": "TERM" })).await;
        assert_eq!((late.status, late.code()), (409, ErrorCode::WrongState));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_command_ends_but_not_its_sandbox() {
    with_server(|fixture| async move {
        let id = fixture.sandbox().await;
        let execution = fixture.sh_in_background(&id, sh("trap '' TERM; while :; do sleep 1; done")).await;
        let path = format!("/api/executions/{execution}");

        let cancelled = fixture.delete(&path).await;
        let again = fixture.delete(&path).await;

        assert_eq!((cancelled.status, &cancelled.json()["state"]), (200, &json!("cancelled")));
        assert_eq!((again.status, again.json()), (200, cancelled.json()));
        assert_eq!(fixture.sh(&id, "echo still here").await["stdout"], "still here\n");
        let all = fixture.get(&format!("/api/sandbox/{id}/executions")).await.json();
        assert_eq!(all.as_array().unwrap().len(), 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn command_longer_than_the_wait_is_reported_as_running() {
    with_server(|fixture| async move {
        let id = fixture.sandbox().await;

        let ran = fixture.post(&format!("/api/sandbox/{id}/exec?wait=0"), sh("sleep 30")).await;

        assert_eq!(ran.status, 202);
        let execution = ran.json()["execution_id"].as_str().unwrap().to_owned();
        assert_eq!(ran.header("x-execution-id"), Some(execution.as_str()));
        assert_eq!(ran.header("location"), Some(format!("/api/executions/{execution}").as_str()));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn execution_limit_ends_the_command_with_its_cause() {
    with_server(|fixture| async move {
        let id = fixture.sandbox().await;
        let body = json!({ "command": ["sleep", "30"], "timeout_ms": 200 });

        let ran = fixture.post(&format!("/api/sandbox/{id}/exec"), body).await.json();

        assert_eq!((&ran["state"], &ran["cause"]), (&json!("timed_out"), &json!("time_limit")));
        assert_eq!(ran["exit_code"], json!(null));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn execution_beyond_the_limit_is_queued_or_refused() {
    with_server(|fixture| async move {
        let id = fixture.sandbox().await;
        let path = format!("/api/sandbox/{id}/exec?wait=0");
        for _ in 0..16 {
            assert_eq!(fixture.post(&path, sh("sleep 60")).await.status, 202);
        }

        let queued = fixture.post(&path, sh("true")).await;
        let mut body = sh("true");
        body["queue"] = false.into();
        let refused = fixture.post(&path, body).await;

        assert_eq!((queued.status, &queued.json()["state"]), (202, &json!("queued")));
        assert_eq!((refused.status, refused.code()), (429, ErrorCode::SandboxBusy));
        assert!(refused.header("retry-after").is_some());
    })
    .await;
}
