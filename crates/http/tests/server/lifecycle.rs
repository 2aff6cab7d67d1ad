//! The life of a sandbox from create to receipt.

use hyper::Request;
use pinfold_api::ErrorCode;
use serde_json::{Value, json};

use crate::fixture::{sh, with_server};

#[tokio::test(flavor = "multi_thread")]
async fn sandbox_is_created_used_and_proven_gone() {
    with_server(|fixture| async move {
        let made = fixture.post("/api/sandbox", json!({ "name": "one", "labels": { "a": "b" } })).await;
        let sandbox = made.json();
        let path = format!("/api/sandbox/{}", sandbox["id"].as_str().unwrap());
        assert_eq!((made.status, made.header("location")), (201, Some(path.as_str())));
        assert_eq!((&sandbox["status"]["state"], &sandbox["name"]), (&json!("ready"), &json!("one")));

        let ran = fixture.post(&format!("{path}/exec"), sh("echo out; echo err >&2; exit 3")).await;
        let result = ran.json();
        assert_eq!(
            (ran.status, &result["exit_code"], &result["cause"]),
            (200, &json!(3), &json!("exit_nonzero"))
        );
        assert_eq!((&result["stdout"], &result["stderr"]), (&json!("out\n"), &json!("err\n")));
        assert!(
            result["started_at"].is_string() && result["ended_at"].is_string() && result["usage"].is_object()
        );

        let gone = fixture.delete(&format!("{path}?force=1")).await;
        let receipt = gone.json();
        assert_eq!((gone.status, &receipt["cause"]), (200, &json!("stopped_by_user")));
        let checks = receipt["checks"].as_array().unwrap();
        for kind in ["processes", "cgroups", "mounts", "namespaces", "directories", "sockets"] {
            let is_absent = |check: &Value| check["kind"] == kind && check["result"] == "absent";
            assert!(checks.iter().any(is_absent), "{kind}: {receipt}");
        }
        assert_eq!(fixture.delete(&path).await.json(), receipt);

        let refused = fixture.post(&format!("{path}/exec"), sh("true")).await;
        assert_eq!((refused.status, refused.code()), (410, ErrorCode::SandboxGone));
        assert_eq!(refused.json()["error"]["details"]["cause"], "stopped_by_user");
        let shown = fixture.get(&path).await.json();
        assert_eq!((&shown["status"]["state"], &shown["receipt"]), (&json!("terminated"), &receipt));
        let execution = result["execution_id"].as_str().unwrap();
        let output = fixture.get(&format!("/api/executions/{execution}/output")).await.json();
        let is_stdout = |event: &Value| event["event"] == "stdout" && event["text"] == "out\n";
        assert!(output["events"].as_array().unwrap().iter().any(is_stdout), "{output}");
        assert_eq!(output["ended"], true);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stats_add_up_from_the_first_sandbox_to_the_last() {
    with_server(|fixture| async move {
        let sums = |stats: Value| {
            ["active", "present", "total_created", "total_destroyed"]
                .map(|name| stats[name].as_u64().unwrap())
        };
        let before = sums(fixture.get("/api/sandbox/stats").await.json());
        let id = fixture.sandbox().await;
        let during = sums(fixture.get("/api/sandbox/stats").await.json());
        fixture.delete(&format!("/api/sandbox/{id}?force=1")).await;

        let after = sums(fixture.get("/api/sandbox/stats").await.json());

        assert_eq!((before, during, after), ([0, 0, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1]));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn create_without_wait_returns_the_location() {
    with_server(|fixture| async move {
        let made = fixture.post("/api/sandbox?wait=0", json!({})).await;
        assert_eq!((made.status, &made.json()["status"]["state"]), (202, &json!("provisioning")));
        let path = made.header("location").unwrap().to_owned();
        let ready = fixture.get(&format!("{path}/wait?state=ready&wait=30")).await;
        assert_eq!((ready.status, &ready.json()["status"]["state"]), (200, &json!("ready")));
        fixture
            .sh_in_background(path.rsplit('/').next().unwrap(), sh("trap '' TERM; while :; do sleep 1; done"))
            .await;

        let ending = fixture.delete(&format!("{path}?wait=0")).await;

        assert_eq!((ending.status, ending.header("location")), (202, Some(path.as_str())));
        assert_eq!(ending.json()["status"]["state"], "terminating");
        let gone = fixture.get(&format!("{path}/wait?state=gone&wait=30")).await;
        assert_eq!((gone.status, &gone.json()["cause"]), (200, &json!("stopped_by_user")));
        assert!(gone.json()["receipt"].is_object());
        assert_eq!(fixture.get(&format!("{path}/wait?state=ready&wait=1")).await.status, 410);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn same_idempotency_key_and_token_return_the_same_sandbox() {
    with_server(|fixture| async move {
        let (_, other) = fixture.token("operator").await;
        let create = async |token: &str, key: &str, body: Value| {
            let request = Request::post(fixture.url("/api/sandbox"))
                .header("authorization", format!("Bearer {token}"))
                .header("content-type", "application/json")
                .header("idempotency-key", key);
            fixture.send(request.body(body.to_string().into()).unwrap()).await
        };
        let spec = json!({ "task_id": "keyed" });
        let first = create(&fixture.admin, "k1", spec.clone()).await;

        let again = create(&fixture.admin, "k1", spec.clone()).await;
        let other_body = create(&fixture.admin, "k1", json!({ "task_id": "changed" })).await;
        let another_token = create(&other, "k1", spec).await;

        assert_eq!((first.status, again.status, another_token.status), (201, 201, 201));
        assert_eq!(first.json()["id"], again.json()["id"]);
        assert_eq!((other_body.status, other_body.code()), (422, ErrorCode::KeyReused));
        assert_ne!(another_token.json()["id"], first.json()["id"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn busy_sandbox_uses_more_cpu_than_an_idle_one() {
    with_server(|fixture| async move {
        let (busy, idle) = (fixture.sandbox().await, fixture.sandbox().await);
        fixture.sh_in_background(&busy, sh("while :; do :; done")).await;

        fixture
            .until("a busy core", &format!("/api/sandbox/{busy}/resources"), |it| {
                it["cpu_percent"].as_f64().filter(|percent| *percent > 20.0)
            })
            .await;
        let at_rest = fixture.get(&format!("/api/sandbox/{idle}/resources")).await.json();

        assert!(at_rest["cpu_percent"].as_f64().unwrap() < 10.0, "{at_rest}");
        assert!(at_rest["memory_mb"].is_number() && at_rest["operations"].is_number(), "{at_rest}");
        assert!(at_rest["duration_ms"].as_u64().unwrap() > 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn name_is_unique_among_living_sandboxes_and_stands_for_the_id() {
    with_server(|fixture| async move {
        let body = json!({ "name": "builder", "limits": { "memory_mb": 64 } });
        let first = fixture.post("/api/sandbox", body.clone()).await.json();

        let second = fixture.post("/api/sandbox", body.clone()).await;
        let shown = fixture.get("/api/sandbox/builder").await.json();
        let ran = fixture.sh("builder", "echo hello > file").await;
        let file = fixture.get("/api/sandbox/builder/files/tmp?list=1").await;
        let unknown = fixture.get("/api/sandbox/no-such-name").await;
        let gone = fixture.delete("/api/sandbox/builder?force=1").await;
        let third = fixture.post("/api/sandbox", body).await;

        assert_eq!((second.status, second.code()), (409, ErrorCode::NameTaken), "{:?}", second.bytes);
        assert_eq!(second.json()["error"]["details"]["sandbox_id"], first["id"]);
        assert_eq!((&shown["id"], &ran["exit_code"]), (&first["id"], &json!(0)));
        assert_eq!((file.status, gone.status, third.status), (200, 200, 201));
        assert_eq!((unknown.status, unknown.code()), (404, ErrorCode::UnknownSandbox));
    })
    .await;
}
