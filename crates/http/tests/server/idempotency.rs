//! Where `Idempotency-Key` works, and where it is refused.

use hyper::Request;
use pinfold_api::ErrorCode;
use pinfold_engine::Config;
use pinfold_http::document;
use pinfold_lifecycle::AdmissionLimits;
use serde_json::{Value, json};

use crate::fixture::{Answer, Fixture, rules, with_engine_config, with_server};

async fn post_with_keys(fixture: &Fixture, path: &str, keys: &[&str], body: Value) -> Answer {
    let request = Request::post(fixture.url(path))
        .header("authorization", format!("Bearer {}", fixture.admin))
        .header("content-type", "application/json");
    let request = keys.iter().fold(request, |request, key| request.header("idempotency-key", *key));
    fixture.send(request.body(body.to_string().into()).unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_post_supports_the_key_or_refuses_it() {
    with_server(|fixture| async move {
        let document = serde_json::to_value(document()).unwrap();
        let mut supporting = Vec::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            let Some(operation) = item.get("post") else { continue };
            let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
            if parameters.iter().any(|parameter| parameter["name"] == "Idempotency-Key") {
                supporting.push(path.clone());
                continue;
            }
            let kind = if path.starts_with("/api/exec") { "exe" } else { "sbx" };
            let filled = path
                .replace("{id}", &format!("{kind}_01m7h9849weh0tapx1maw3q2yb"))
                .replace("{name}", "team/app")
                .replace("{alert}", "sandbox_stuck");

            let answer = post_with_keys(&fixture, &filled, &["once"], json!({})).await;

            assert_eq!((answer.status, answer.code()), (400, ErrorCode::BadInput), "{path}");
            assert_eq!(answer.json()["error"]["details"]["field"], "idempotency-key", "{path}");
        }
        assert_eq!(supporting, ["/api/agents/execute", "/api/sandbox"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_keys_are_refused() {
    with_server(|fixture| async move {
        for path in ["/api/sandbox", "/api/agents/execute"] {
            let body = if path == "/api/sandbox" {
                json!({})
            } else {
                json!({ "taskId": "t", "agentType": "VALIDATION", "context": { "command": ["true"] } })
            };
            let answer = post_with_keys(&fixture, path, &["one", "two"], body).await;

            assert_eq!((answer.status, answer.code()), (400, ErrorCode::BadInput), "{path}");
        }
        assert_eq!(fixture.get("/api/sandbox/stats").await.json()["total_created"], 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn key_of_an_ended_sandbox_answers_200_with_its_state() {
    with_server(|fixture| async move {
        let spec = json!({ "limits": { "memory_mb": 64 } });
        let create = async || post_with_keys(&fixture, "/api/sandbox", &["once"], spec.clone()).await;
        let made = create().await;
        let id = made.json()["id"].as_str().unwrap().to_owned();
        let living = create().await;
        fixture.delete(&format!("/api/sandbox/{id}?force=1")).await;

        let ended = create().await;

        assert_eq!((made.status, living.status, ended.status), (201, 201, 200));
        assert_eq!(ended.json()["id"], id.as_str());
        assert_eq!(ended.json()["status"]["state"], "terminated", "{}", ended.json());
        assert_eq!(ended.header("location"), Some(&*format!("/api/sandbox/{id}")));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refusal_for_lack_of_room_leaves_its_key_free() {
    let admission = AdmissionLimits { sandboxes: Some(1), ..AdmissionLimits::default() };
    with_engine_config(Config { admission, ..Config::default() }, rules(), |fixture| async move {
        let holder = fixture.sandbox().await;
        let spec = json!({ "limits": { "memory_mb": 64 } });
        let create = async || post_with_keys(&fixture, "/api/sandbox", &["later"], spec.clone()).await;

        let refused = create().await;
        fixture.delete(&format!("/api/sandbox/{holder}?force=1")).await;
        let made = create().await;

        assert_eq!((refused.status, refused.code()), (429, ErrorCode::LimitReached));
        assert_eq!(made.status, 201, "{:?}", made.bytes);
    })
    .await;
}
