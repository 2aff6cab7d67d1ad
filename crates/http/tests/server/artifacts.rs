//! Artifacts: files kept from an execution.

use pinfold_api::ErrorCode;
use serde_json::json;

use crate::fixture::with_server;

#[tokio::test(flavor = "multi_thread")]
async fn missing_artifact_is_reported() {
    with_server(|fixture| async move {
        let id = fixture.sandbox().await;
        let ran = fixture.sh(&id, "true").await;
        let path = format!("/api/executions/{}/artifacts", ran["execution_id"].as_str().unwrap());

        let none = fixture.get(&path).await;
        let one = fixture.get(&format!("{path}/x")).await;
        let trick = fixture.get(&format!("{path}/a/%2E%2E/b")).await;
        let unreachable = fixture.get("/api/executions/exe_01m7h9849weh0tapx1maw3q2yb/artifacts").await;

        assert_eq!((none.status, none.json()), (200, json!([])));
        assert_eq!((one.status, one.code()), (404, ErrorCode::UnknownArtifact));
        assert_eq!((trick.status, trick.code()), (400, ErrorCode::BadInput));
        assert_eq!((unreachable.status, unreachable.code()), (404, ErrorCode::UnknownExecution));
    })
    .await;
}

/// What only real sandboxes do.
mod on_linux {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn artifact_is_served_unchanged_and_never_as_active_content() {
        with_server(|fixture| async move {
            let script =
                "head -c 3000000 /dev/urandom > big; sha256sum big | cut -d' ' -f1; printf '<b>' > 'a b.html'";
            let context = json!({ "script": script, "artifacts": ["big", "a b.html"] });
            let body = json!({ "taskId": "t", "agentType": "VALIDATION", "context": context });
            let run = fixture.post("/api/agents/execute", body).await.json();
            let sum = run["output"]["stdout"].as_str().unwrap().trim().to_owned();

            let listed = fixture.get(run["links"]["artifacts"].as_str().unwrap()).await.json();
            let [big, page] = &listed.as_array().unwrap()[..] else { panic!("{listed}") };
            let content = fixture.get(big["url"].as_str().unwrap()).await;
            let html = fixture.get(page["url"].as_str().unwrap()).await;

            assert_eq!((content.bytes.len(), &big["sha256"]), (3_000_000, &json!(sum)), "{run:#}");
            assert_eq!(&html.bytes[..], b"<b>");
            assert_eq!(html.header("content-type"), Some("application/octet-stream"));
            assert_eq!(html.header("content-disposition"), Some("attachment"));
            assert_eq!(html.header("x-content-type-options"), Some("nosniff"));
        })
        .await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn artifact_of_200_mb_is_kept_complete() {
        with_server(|fixture| async move {
            let script =
                "head -c 200000000 /dev/zero > big; printf end >> big; sha256sum big | cut -d' ' -f1";
            let context = json!({ "script": script, "artifacts": ["big"] });
            let body = json!({ "taskId": "t", "agentType": "VALIDATION", "context": context });
            let run = fixture.post("/api/agents/execute", body).await.json();
            let sum = run["output"]["stdout"].as_str().unwrap().trim().to_owned();

            let listed = fixture.get(run["links"]["artifacts"].as_str().unwrap()).await.json();
            let content = fixture.get(listed[0]["url"].as_str().unwrap()).await;

            assert_eq!(
                (&listed[0]["sha256"], &listed[0]["size"]),
                (&json!(sum), &json!(200_000_003)),
                "{run:#}"
            );
            assert_eq!((content.bytes.len(), content.bytes.ends_with(b"end")), (200_000_003, true));
        })
        .await;
    }
}
