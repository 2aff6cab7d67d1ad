//! Agent runs: from the request to the receipt.

use pinfold_api::ErrorCode;
use serde_json::{Value, json};

use crate::fixture::{Fixture, kill_keeper, with_server};

fn agent_request(context: Value) -> Value {
    json!({ "taskId": "task_1", "agentType": "elicitation", "context": context })
}

fn is_proof(receipt: &Value) -> bool {
    let checks = receipt["checks"].as_array().unwrap();
    checks.len() >= 6 && checks.iter().all(|check| check["result"] == "absent")
}

async fn wait_for_output(fixture: &Fixture, run: &Value, text: &str) {
    let path = run["links"]["output"].as_str().unwrap();
    let texts = |page: &Value| page["events"].to_string().contains(text).then_some(());
    fixture.until(text, path, texts).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_run_returns_result_usage_and_receipt() {
    with_server(|fixture| async move {
        let script =
            "cat notes/in.txt; printf 'x' | cat - /etc/data.bin > out/data; echo oops >&2; ./tool; exit 3";
        let context = json!({
            "script": format!("mkdir out; {script}"),
            "files": {
                "notes/in.txt": "hello $WORD\n",
                "/etc/data.bin": { "base64": "/wA=" },
                "tool": { "text": "#!/bin/sh\necho $WORD\n", "executable": true }
            },
            "env": { "WORD": "world" },
            "artifacts": ["out/data", "nowhere"]
        });

        let answer = fixture.post("/api/agents/execute", agent_request(context)).await;

        assert_eq!(answer.status, 200, "{:?}", answer.bytes);
        let run = answer.json();
        assert_eq!((&run["task_id"], &run["agent_type"]), (&json!("task_1"), &json!("ELICITATION")));
        assert_eq!((&run["exit_code"], &run["cause"]), (&json!(3), &json!("exit_nonzero")));
        assert_eq!(run["output"]["stdout"], "hello $WORD\nworld\n");
        assert_eq!(run["output"]["stderr"], "oops\n");
        assert!(is_proof(&run["receipt"]) && run["usage"]["cpu_ms"].is_u64(), "{run:#}");
        assert_eq!(run["attempts"].as_array().unwrap().len(), 1);
        let [data, nowhere] = &run["artifacts"].as_array().unwrap()[..] else { panic!("{run:#}") };
        assert_eq!((&data["state"], &data["size"]), (&json!("kept"), &json!(3)));
        assert_eq!(nowhere["state"], "missing");
        assert!(nowhere["error"].as_str().unwrap().contains("not found"), "{nowhere}");
        let limits = fixture.get(run["links"]["sandbox"].as_str().unwrap()).await.json()["limits"].clone();
        assert_eq!((&limits["memory_mb"], &limits["timeout_ms"]), (&json!(256), &json!(300_000)));
        let again = fixture.get(run["links"]["self"].as_str().unwrap()).await;
        assert_eq!((again.status, again.json()), (200, run));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_run_is_retried_with_its_files_when_its_sandbox_dies() {
    with_server(|fixture| async move {
        // The first attempt changes its input file; the second must find it as requested.
        let script = "cat seed; echo spoilt > seed; echo begun; sleep 2; echo done | tee result";
        let context = json!({ "script": script, "files": { "seed": "fresh\n" }, "artifacts": ["result"] });
        let began = fixture.post("/api/agents/execute?wait=0", agent_request(context)).await;
        assert_eq!(began.status, 202, "{:?}", began.bytes);
        let run = began.json();
        assert_eq!(began.header("location"), run["links"]["self"].as_str());
        wait_for_output(&fixture, &run, "begun").await;

        kill_keeper(fixture.data.path(), run["sandbox_id"].as_str().unwrap());
        let own = run["links"]["self"].as_str().unwrap();
        let ended = fixture.get(&format!("{own}?wait=60")).await;

        assert_eq!(ended.status, 200, "{:?}", ended.bytes);
        let ended = ended.json();
        assert_eq!((&ended["exit_code"], &ended["cause"]), (&json!(0), &json!("completed")), "{ended:#}");
        assert_eq!(ended["output"]["stdout"], "fresh\nbegun\nfresh\nbegun\ndone\n");
        let [first, second] = &ended["attempts"].as_array().unwrap()[..] else { panic!("{ended:#}") };
        assert_eq!((&first["generation"], &second["generation"]), (&json!(1), &json!(2)));
        assert!(is_proof(&first["receipt"]) && is_proof(&second["receipt"]));
        assert!(first["cause"] != "completed" && first["why"].is_string(), "{first}");
        assert_eq!(second["cause"], "completed");
        assert_eq!(ended["artifacts"][0]["state"], "kept");
        let execution = fixture.get(ended["links"]["execution"].as_str().unwrap()).await.json();
        assert_eq!(execution["attempts"].as_array().unwrap().len(), 2);
        assert_log_has_both_attempts_in_order(&fixture, &ended).await;
    })
    .await;
}

/// Checks the log, read in small pages.
async fn assert_log_has_both_attempts_in_order(fixture: &Fixture, run: &Value) {
    let (path, mut after, mut texts) = (run["links"]["logs"].as_str().unwrap(), String::new(), Vec::new());
    loop {
        let page = fixture.get(&format!("{path}?limit=2{after}")).await.json();
        let entries = page["entries"].as_array().unwrap().clone();
        if entries.is_empty() {
            break;
        }
        texts.extend(entries.iter().map(|entry| entry["text"].as_str().unwrap().to_owned()));
        after = format!("&after={}", page["next"].as_str().unwrap());
    }
    let interesting = ["fresh", "begun", "done", "another attempt follows", " started", "exited"];
    let in_it =
        |text: &String| interesting.into_iter().filter(|word| text.contains(word)).collect::<Vec<_>>();
    let order: Vec<_> = texts.iter().flat_map(in_it).collect();
    let expected = [
        " started",
        "fresh",
        "begun",
        "another attempt follows",
        " started",
        "fresh",
        "begun",
        "done",
        "exited",
    ];
    assert_eq!(order, expected, "{texts:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn timed_out_run_keeps_its_artifacts() {
    with_server(|fixture| async move {
        let mut body = agent_request(
            json!({ "script": "echo half > half; sleep 60", "artifacts": ["/workspace/half"] }),
        );
        body["agentType"] = "HASTY".into();

        let run = fixture.post("/api/agents/execute", body).await.json();

        assert_eq!((&run["state"], &run["cause"]), (&json!("timed_out"), &json!("time_limit")), "{run:#}");
        assert_eq!(run["attempts"].as_array().unwrap().len(), 1);
        let [half] = &run["artifacts"].as_array().unwrap()[..] else { panic!("{run:#}") };
        assert_eq!((&half["name"], &half["state"]), (&json!("workspace/half"), &json!("kept")), "{half}");
        let content = fixture.get(half["url"].as_str().unwrap()).await;
        assert_eq!(&content.bytes[..], b"half\n");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn same_idempotency_key_returns_the_same_run() {
    with_server(|fixture| async move {
        let body = agent_request(json!({ "command": ["cat", "/proc/sys/kernel/random/uuid"] })).to_string();
        let send = async |body: &str| {
            let request = hyper::Request::post(fixture.url("/api/agents/execute"))
                .header("authorization", format!("Bearer {}", fixture.admin))
                .header("content-type", "application/json")
                .header("idempotency-key", "once");
            fixture.send(request.body(body.to_owned().into()).unwrap()).await
        };

        let (first, second) = (send(&body).await, send(&body).await);
        let other = send(&body.replace("task_1", "task_2")).await;

        assert_eq!(first.json(), second.json());
        assert_eq!((other.status, other.code()), (422, ErrorCode::KeyReused));
        let stats = fixture.get("/api/sandbox/stats").await.json();
        assert_eq!((&stats["total_created"], &stats["total_destroyed"]), (&json!(1), &json!(1)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_agent_request_names_the_bad_field() {
    with_server(|fixture| async move {
        let wizard = json!({ "taskId": "t", "agentType": "WIZARD", "context": { "command": ["true"] } });

        let refused = fixture.post("/api/agents/execute", wizard).await;

        assert_eq!((refused.status, refused.code()), (400, ErrorCode::BadInput));
        let details = refused.json()["error"]["details"].clone();
        assert_eq!(details["field"], "agentType");
        let known = details["known"].as_array().unwrap();
        assert!(known.contains(&json!("ELICITATION")) && known.contains(&json!("HASTY")), "{known:?}");
        for (context, field) in [
            (json!({ "command": ["true"], "file": {} }), "context.file"),
            (json!({ "command": "true" }), "context.command"),
            (json!({ "command": ["true"], "files": { "a": 1 } }), "context.files.a"),
            (json!({ "command": ["true"], "artifacts": [".pinfold/not-kept.json"] }), "context.artifacts"),
            (json!({}), "context.command"),
        ] {
            let refused = fixture.post("/api/agents/execute", agent_request(context)).await;
            assert_eq!((refused.status, &refused.json()["error"]["details"]["field"]), (400, &json!(field)));
        }
        assert_eq!(fixture.get("/api/sandbox/stats").await.json()["total_created"], 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_run_accepts_files_up_to_the_create_limit() {
    with_server(|fixture| async move {
        let context = json!({ "script": "wc -c < much", "files": { "much": "x".repeat(100 << 10) } });

        let run = fixture.post("/api/agents/execute", agent_request(context)).await;

        assert_eq!(run.status, 200, "{:?}", run.bytes);
        assert_eq!(run.json()["output"]["stdout"], "102400\n");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_run_reports_it_and_is_not_retried() {
    with_server(|fixture| async move {
        let context = json!({ "script": "echo begun; sleep 60", "artifacts": ["x"] });
        let run = fixture.post("/api/agents/execute?wait=0", agent_request(context)).await.json();
        wait_for_output(&fixture, &run, "begun").await;

        let stopped = fixture.delete(&format!("{}?force=1", run["links"]["sandbox"].as_str().unwrap())).await;
        let ended = fixture.get(run["links"]["self"].as_str().unwrap()).await;

        assert_eq!((stopped.status, ended.status), (200, 200));
        let ended = ended.json();
        assert_eq!(
            (&ended["cause"], ended["attempts"].as_array().unwrap().len()),
            (&json!("stopped_by_user"), 1)
        );
        assert_eq!(ended["artifacts"][0]["state"], "missing");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_run_takes_limits_of_its_own() {
    with_server(|fixture| async move {
        let mut body = agent_request(json!({ "command": ["sleep", "60"] }));
        body["limits"] = json!({ "timeout_ms": 300, "memory_mb": 96 });

        let run = fixture.post("/api/agents/execute", body.clone()).await.json();
        body["limits"] = json!({ "memory_mb": 1 });
        let refused = fixture.post("/api/agents/execute", body).await;

        assert_eq!(run["cause"], "time_limit", "{run:#}");
        let sandbox =
            fixture.get(&format!("/api/sandbox/{}", run["sandbox_id"].as_str().unwrap())).await.json();
        assert_eq!(sandbox["limits"]["memory_mb"], 96, "{sandbox:#}");
        assert_eq!(refused.status, 400);
        assert_eq!(refused.json()["error"]["details"]["field"], "limits.memory_mb");
    })
    .await;
}
