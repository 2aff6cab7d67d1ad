//! Waiting for room over HTTP, with real sandboxes: places, positions, deadlines and callers that go away.

use std::sync::Arc;

use hyper::Method;
use pinfold_api::ErrorCode;
use pinfold_engine::Config;
use pinfold_lifecycle::AdmissionLimits;
use serde_json::{Value, json};

use crate::ground::{Answer, Ground, on_engine, sh};

const TICKET: &str = "que_00000000000000000000000001";

fn places(sandboxes: u64) -> Config {
    let admission = AdmissionLimits { sandboxes: Some(sandboxes), ..AdmissionLimits::default() };
    Config { admission, ..Config::default() }
}

fn small() -> Value {
    json!({ "limits": { "memory_mb": 64 } })
}

fn asks(ground: &Arc<Ground>, path: &str, body: Value) -> tokio::task::JoinHandle<Answer> {
    let (ground, path) = (ground.clone(), path.to_owned());
    tokio::spawn(async move { ground.post(&path, body).await })
}

async fn until_state(ground: &Ground, place: &str, state: &str) -> Value {
    let path = format!("/api/sandbox/queue/{place}");
    ground.until(state, &path, |place| (place["state"] == state).then(|| place.clone())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_queues_is_let_in_by_turn_and_shown_its_place() {
    on_engine(tempfile::tempdir().unwrap(), places(2), |ground| async move {
        let (one, other) = (ground.sandbox().await, ground.sandbox().await);

        // Who does not wait for the answer is told where to look.
        let first = ground.post("/api/sandbox?queue=50s&wait=0", small()).await;
        assert_eq!(first.status, 202, "{:?}", first.bytes);
        let place = first.json();
        assert_eq!((&place["state"], &place["position"]), (&json!("waiting"), &json!(1)), "{place:#}");
        assert_eq!(first.header("location"), place["location"].as_str());
        let first = place["id"].as_str().unwrap().to_owned();

        // Who waits is held up, and can be watched under an id of its own.
        let second = asks(&ground, &format!("/api/sandbox?queue=50s&ticket={TICKET}"), small());
        let second_place = until_state(&ground, TICKET, "waiting").await;
        assert_eq!(second_place["position"], 2);
        let third = ground.post("/api/sandbox?queue=50s&wait=0", small()).await.json();
        let listed = ground.get("/api/sandbox/queue").await.json();
        let ids: Vec<_> = listed.as_array().unwrap().iter().map(|place| place["id"].clone()).collect();
        assert_eq!(ids, [json!(first), json!(TICKET), third["id"].clone()]);
        let refused = ground.post("/api/sandbox", small()).await;
        assert_eq!((refused.status, refused.code()), (429, ErrorCode::LimitReached));

        let cancelled = ground.delete(third["location"].as_str().unwrap()).await;
        assert_eq!((cancelled.status, &cancelled.json()["state"]), (200, &json!("cancelled")));

        ground.delete(&format!("/api/sandbox/{one}")).await;
        let admitted = until_state(&ground, &first, "admitted").await;
        let sandbox = admitted["sandbox_id"].as_str().unwrap();
        let ready = ground.get(&format!("/api/sandbox/{sandbox}/wait?state=ready&wait=20")).await;
        assert_eq!(ready.status, 200, "{:?}", ready.bytes);
        assert!(!second.is_finished());

        ground.delete(&format!("/api/sandbox/{other}")).await;
        let second = second.await.unwrap();
        assert_eq!(second.status, 201, "{:?}", second.bytes);
        assert_eq!(until_state(&ground, TICKET, "admitted").await["sandbox_id"], second.json()["id"]);
        assert_eq!(ground.get("/api/sandbox/queue").await.json(), json!([]));
        assert_eq!(ground.get("/api/sandbox/stats").await.json()["present"], 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_was_in_vain_says_how_long_it_was_and_how_it_stood() {
    on_engine(tempfile::tempdir().unwrap(), places(1), |ground| async move {
        let there = ground.sandbox().await;

        let refused = ground.post("/api/sandbox?queue=300ms", small()).await;

        assert_eq!((refused.status, refused.code()), (429, ErrorCode::LimitReached));
        let details = refused.json()["error"]["details"].clone();
        assert_eq!((&details["resource"], &details["limit"]), (&json!("sandboxes"), &json!(1)));
        assert!(details["waited_ms"].as_u64().unwrap() >= 300 && details["position"] == 1, "{details}");
        for (path, field) in [("queue=soon", "queue"), ("queue=2h", "queue"), ("ticket=que_1", "ticket")] {
            let bad = ground.post(&format!("/api/sandbox?{path}"), small()).await;
            assert_eq!(bad.json()["error"]["details"]["field"], field);
        }

        // A caller that hangs up does not wait any more.
        let path = format!("/api/sandbox?queue=50s&ticket={TICKET}");
        let caller = asks(&ground, &path, small());
        until_state(&ground, TICKET, "waiting").await;
        caller.abort();
        until_state(&ground, TICKET, "cancelled").await;
        let unknown = ground.get("/api/sandbox/queue/que_00000000000000000000000009").await;
        assert_eq!(unknown.code(), ErrorCode::UnknownPlace);

        // Runs of agents, and commands in a sandbox of their own, wait in the same queue.
        let run = json!({ "taskId": "t", "agentType": "elicitation", "context": { "command": ["true"] } });
        let run = asks(&ground, "/api/agents/execute?queue=40s", run);
        let is_one = |line: &Value| (line.as_array().unwrap().len() == 1).then_some(());
        ground.until("the run waits", "/api/sandbox/queue", is_one).await;
        ground.ask(Method::DELETE, &format!("/api/sandbox/{there}"), None).await;
        let run = run.await.unwrap();
        assert_eq!((run.status, &run.json()["exit_code"]), (200, &json!(0)), "{:?}", run.bytes);
        let streamed = ground.post("/api/sandbox/run?queue=20s", json!({ "exec": sh("echo in") })).await;
        assert_eq!(streamed.status, 200, "{:?}", streamed.bytes);
    })
    .await;
}
