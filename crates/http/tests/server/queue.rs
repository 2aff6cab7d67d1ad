//! The admission queue over HTTP, with real sandboxes: positions, deadlines and callers that disconnect.

use std::sync::Arc;

use hyper::Method;
use pinfold_api::ErrorCode;
use pinfold_engine::Config;
use pinfold_lifecycle::AdmissionLimits;
use serde_json::{Value, json};

use crate::fixture::{Answer, Fixture, sh, with_engine};

const QUEUE_ID: &str = "que_00000000000000000000000001";

fn with_limit(sandboxes: u64) -> Config {
    let admission = AdmissionLimits { sandboxes: Some(sandboxes), ..AdmissionLimits::default() };
    Config { admission, ..Config::default() }
}

fn small() -> Value {
    json!({ "limits": { "memory_mb": 64 } })
}

fn spawn_request(fixture: &Arc<Fixture>, path: &str, body: Value) -> tokio::task::JoinHandle<Answer> {
    let (fixture, path) = (fixture.clone(), path.to_owned());
    tokio::spawn(async move { fixture.post(&path, body).await })
}

async fn until_state(fixture: &Fixture, entry: &str, state: &str) -> Value {
    let path = format!("/api/sandbox/queue/{entry}");
    fixture.until(state, &path, |entry| (entry["state"] == state).then(|| entry.clone())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_admits_in_order_and_shows_positions() {
    with_engine(tempfile::tempdir().unwrap(), with_limit(2), |fixture| async move {
        let (one, other) = (fixture.sandbox().await, fixture.sandbox().await);

        // A create that does not wait returns the location of its queue entry.
        let first = fixture.post("/api/sandbox?queue=50s&wait=0", small()).await;
        assert_eq!(first.status, 202, "{:?}", first.bytes);
        let place = first.json();
        assert_eq!((&place["state"], &place["position"]), (&json!("waiting"), &json!(1)), "{place:#}");
        assert_eq!(first.header("location"), place["location"].as_str());
        let first = place["id"].as_str().unwrap().to_owned();

        // A create that waits can be observed under its own queue id.
        let second = spawn_request(&fixture, &format!("/api/sandbox?queue=50s&queue_id={QUEUE_ID}"), small());
        let second_place = until_state(&fixture, QUEUE_ID, "waiting").await;
        assert_eq!(second_place["position"], 2);
        let third = fixture.post("/api/sandbox?queue=50s&wait=0", small()).await.json();
        let listed = fixture.get("/api/sandbox/queue").await.json();
        let ids: Vec<_> = listed.as_array().unwrap().iter().map(|place| place["id"].clone()).collect();
        assert_eq!(ids, [json!(first), json!(QUEUE_ID), third["id"].clone()]);
        let refused = fixture.post("/api/sandbox", small()).await;
        assert_eq!((refused.status, refused.code()), (429, ErrorCode::LimitReached));

        let cancelled = fixture.delete(third["location"].as_str().unwrap()).await;
        assert_eq!((cancelled.status, &cancelled.json()["state"]), (200, &json!("cancelled")));

        fixture.delete(&format!("/api/sandbox/{one}")).await;
        let admitted = until_state(&fixture, &first, "admitted").await;
        let sandbox = admitted["sandbox_id"].as_str().unwrap();
        let ready = fixture.get(&format!("/api/sandbox/{sandbox}/wait?state=ready&wait=20")).await;
        assert_eq!(ready.status, 200, "{:?}", ready.bytes);
        assert!(!second.is_finished());

        fixture.delete(&format!("/api/sandbox/{other}")).await;
        let second = second.await.unwrap();
        assert_eq!(second.status, 201, "{:?}", second.bytes);
        assert_eq!(until_state(&fixture, QUEUE_ID, "admitted").await["sandbox_id"], second.json()["id"]);
        assert_eq!(fixture.get("/api/sandbox/queue").await.json(), json!([]));
        assert_eq!(fixture.get("/api/sandbox/stats").await.json()["present"], 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn request_that_asks_for_no_queue_is_refused_at_once() {
    with_engine(tempfile::tempdir().unwrap(), with_limit(1), |fixture| async move {
        fixture.sandbox().await;
        let run = json!({ "taskId": "t", "agentType": "elicitation", "context": { "command": ["true"] } });

        for (path, body) in [("/api/sandbox", small()), ("/api/agents/execute", run)] {
            let refused = fixture.post(path, body).await;

            assert_eq!((refused.status, refused.code()), (429, ErrorCode::LimitReached), "{path}");
            let details = refused.json()["error"]["details"].clone();
            assert_eq!(details["waited_ms"], Value::Null, "{path} waited: {details}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_timeout_reports_wait_time_and_position() {
    with_engine(tempfile::tempdir().unwrap(), with_limit(1), |fixture| async move {
        let there = fixture.sandbox().await;

        let refused = fixture.post("/api/sandbox?queue=300ms", small()).await;

        assert_eq!((refused.status, refused.code()), (429, ErrorCode::LimitReached));
        let details = refused.json()["error"]["details"].clone();
        assert_eq!((&details["resource"], &details["limit"]), (&json!("sandboxes"), &json!(1)));
        assert!(details["waited_ms"].as_u64().unwrap() >= 300 && details["position"] == 1, "{details}");
        for (path, field) in [("queue=soon", "queue"), ("queue=2h", "queue"), ("queue_id=que_1", "queue_id")]
        {
            let bad = fixture.post(&format!("/api/sandbox?{path}"), small()).await;
            assert_eq!(bad.json()["error"]["details"]["field"], field);
        }

        // A caller that disconnects leaves the queue.
        let path = format!("/api/sandbox?queue=50s&queue_id={QUEUE_ID}");
        let caller = spawn_request(&fixture, &path, small());
        until_state(&fixture, QUEUE_ID, "waiting").await;
        caller.abort();
        until_state(&fixture, QUEUE_ID, "cancelled").await;
        let unknown = fixture.get("/api/sandbox/queue/que_00000000000000000000000009").await;
        assert_eq!(unknown.code(), ErrorCode::UnknownQueueEntry);

        // Agent runs and `run` requests use the same queue.
        let run = json!({ "taskId": "t", "agentType": "elicitation", "context": { "command": ["true"] } });
        let run = spawn_request(&fixture, "/api/agents/execute?queue=40s", run);
        let is_one = |line: &Value| (line.as_array().unwrap().len() == 1).then_some(());
        fixture.until("the run waits", "/api/sandbox/queue", is_one).await;
        fixture.request(Method::DELETE, &format!("/api/sandbox/{there}"), None).await;
        let run = run.await.unwrap();
        assert_eq!((run.status, &run.json()["exit_code"]), (200, &json!(0)), "{:?}", run.bytes);
        let streamed = fixture.post("/api/sandbox/run?queue=20s", json!({ "exec": sh("echo in") })).await;
        assert_eq!(streamed.status, 200, "{:?}", streamed.bytes);
    })
    .await;
}
