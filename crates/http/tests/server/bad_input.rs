//! Bad requests are refused with the name of the field.

use std::collections::BTreeMap;

use hyper::{Method, Request};
use pinfold_api::ErrorCode;
use serde_json::{Value, json};

use crate::fixture::with_server;

#[tokio::test(flavor = "multi_thread")]
async fn bad_request_names_the_bad_field() {
    with_server(|fixture| async move {
        let id = fixture.sandbox().await;
        let (exec, create) = (format!("/api/sandbox/{id}/exec"), "/api/sandbox");
        let stop_both = format!("/api/sandbox/{id}?force=1&grace_ms=5");
        let stop_late = format!("/api/sandbox/{id}?grace_ms=3600000");
        let (long, longer) = ("n".repeat(129), "n".repeat(257));
        let many: BTreeMap<_, _> = (0..65).map(|number| (number.to_string(), "")).collect();
        let wrong: Vec<(&str, &str, Value, &str)> = vec![
            ("POST", create, json!({ "colour": "red" }), "colour"),
            ("POST", create, json!({ "limits": { "memory": 5 } }), "limits.memory"),
            ("POST", create, json!({ "limits": { "memory_mb": 1 } }), "limits.memory_mb"),
            ("POST", create, json!({ "limits": { "memory_mb": -1 } }), "limits.memory_mb"),
            (
                "POST",
                create,
                json!({ "limits": { "timeout_ms": 5_000, "max_life_ms": 1_000 } }),
                "limits.timeout_ms",
            ),
            ("POST", create, json!({ "limits": { "processes": 0 } }), "limits.processes"),
            ("POST", create, json!({ "limits": { "operations": 0 } }), "limits.operations"),
            ("POST", create, json!({ "agent_type": "POET" }), "agent_type"),
            ("POST", create, json!({ "image": "nowhere" }), "image"),
            ("POST", create, json!({ "network": "all" }), "network"),
            ("POST", create, json!({ "grace_ms": 3_600_000 }), "grace_ms"),
            ("DELETE", &stop_both, json!(null), "grace_ms"),
            ("DELETE", &stop_late, json!(null), "grace_ms"),
            ("POST", create, json!({ "name": "" }), "name"),
            ("POST", create, json!({ "name": long }), "name"),
            ("POST", create, json!({ "name": "sbx_like" }), "name"),
            ("POST", create, json!({ "workdir": "here" }), "workdir"),
            ("POST", create, json!({ "env": { "A=B": "c" } }), "env"),
            ("POST", create, json!({ "labels": { "a": 1 } }), "labels.a"),
            ("POST", create, json!({ "labels": many }), "labels"),
            ("POST", create, json!({ "labels": { "": "a" } }), "labels"),
            ("POST", create, json!({ "labels": { &long: "a" } }), "labels"),
            ("POST", create, json!({ "labels": { "a": longer } }), "labels"),
            ("POST", create, json!({ "task_id": "" }), "task_id"),
            ("POST", create, json!({ "task_id": longer }), "task_id"),
            ("POST", create, json!([]), "body"),
            ("POST", "/api/sandbox?wait=4000", json!({}), "wait"),
            ("POST", "/api/sandbox?wait=soon", json!({}), "wait"),
            ("POST", "/api/sandbox?why=1", json!({}), "why"),
            ("POST", &exec, json!({}), "command"),
            ("POST", &exec, json!({ "command": [] }), "command"),
            ("POST", &exec, json!({ "command": [""] }), "command"),
            ("POST", &exec, json!({ "command": ["a\u{0}b"] }), "command"),
            ("POST", &exec, json!({ "command": "true" }), "command"),
            ("POST", &exec, json!({ "command": ["true"], "timeout_ms": 1 }), "timeout_ms"),
            ("POST", &exec, json!({ "command": ["true"], "shell": true }), "shell"),
            ("GET", "/api/sandbox/list?status=fine", json!(null), "status"),
            ("GET", "/api/sandbox/list?limit=0", json!(null), "limit"),
            ("GET", "/api/sandbox/list?limit=many", json!(null), "limit"),
            ("GET", "/api/sandbox/list?cursor=x", json!(null), "cursor"),
            ("GET", "/api/sandbox/list?label=x", json!(null), "label"),
            ("GET", "/api/sandbox/list?agent_type=POET", json!(null), "agent_type"),
            ("GET", "/api/sandbox/list?page=2", json!(null), "page"),
            ("GET", "/api/sandbox/sbx_short", json!(null), "id"),
            ("GET", "/api/sandbox/exe_01m7h9849weh0tapx1maw3q2yb", json!(null), "id"),
            ("GET", "/api/sandbox/%FF", json!(null), "id"),
            ("DELETE", "/api/sandbox/sbx_01m7h9849weh0tapx1maw3q2yb?force=maybe", json!(null), "force"),
            ("GET", "/api/sandbox/sbx_01m7h9849weh0tapx1maw3q2yb/wait", json!(null), "state"),
            ("GET", "/api/sandbox/sbx_01m7h9849weh0tapx1maw3q2yb/wait?state=fine", json!(null), "state"),
            ("GET", "/api/executions/exe_01m7h9849weh0tapx1maw3q2yb/output?after=-1", json!(null), "after"),
            ("POST", "/api/tokens", json!({ "name": "x", "role": "king" }), "role"),
            ("POST", "/api/tokens", json!({ "role": "viewer" }), "name"),
            ("POST", "/api/tokens", json!({ "name": "", "role": "viewer" }), "name"),
        ];
        for (method, path, body, field) in wrong {
            let body = Some(body).filter(|body| !body.is_null());
            let answer = fixture.request(method.parse().unwrap(), path, body.clone()).await;
            let reported = answer.json();
            assert_eq!(
                (answer.status, answer.code()),
                (400, ErrorCode::BadInput),
                "{path} {body:?}: {reported}"
            );
            assert_eq!(reported["error"]["details"]["field"], field, "{path} {body:?}: {reported}");
        }
        assert_eq!(fixture.get("/api/sandbox/stats").await.json()["total_created"], 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_or_oversized_request_body_is_refused() {
    with_server(|fixture| async move {
        let send = async |kind: &str, body: String| {
            let request = Request::builder()
                .method(Method::POST)
                .uri(fixture.url("/api/sandbox"))
                .header("authorization", format!("Bearer {}", fixture.admin))
                .header("content-type", kind);
            fixture.send(request.body(body.into()).unwrap()).await
        };
        let large = json!({ "name": "x".repeat(5 << 20) }).to_string();

        let (text, broken) =
            (send("text/plain", "{}".into()).await, send("application/json", "{".into()).await);
        let (two, large) =
            (send("application/json", "{}{}".into()).await, send("application/json", large).await);

        assert_eq!((text.status, text.code()), (415, ErrorCode::UnsupportedMediaType));
        assert_eq!((broken.status, broken.code()), (400, ErrorCode::BadInput));
        assert_eq!((two.status, two.code()), (400, ErrorCode::BadInput));
        assert_eq!((large.status, large.code()), (413, ErrorCode::TooLarge));
    })
    .await;
}
