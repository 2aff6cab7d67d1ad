//! Resource usage of a sandbox.

use serde_json::{Value, json};

use crate::fixture::{sh, with_server};

#[tokio::test(flavor = "multi_thread")]
async fn resources_show_limits_while_running_and_totals_after_the_end() {
    with_server(|fixture| async move {
        let limits = json!({ "memory_mb": 64, "network_requests": 7 });
        let made = fixture.post("/api/sandbox", json!({ "limits": limits })).await.json();
        let path = format!("/api/sandbox/{}", made["id"].as_str().unwrap());
        fixture.sh(made["id"].as_str().unwrap(), "head -c 2000000 /dev/zero > /workspace/file").await;

        let idle = fixture.get(&format!("{path}/resources")).await.json();
        fixture
            .sh_in_background(made["id"].as_str().unwrap(), sh("while :; do echo tick; sleep 0.05; done"))
            .await;
        let resources = format!("{path}/resources");
        fixture.until("it is at work", &resources, |it| (it["verdict"] == "healthy").then_some(())).await;
        fixture.delete(&format!("{path}?force=1")).await;
        let ended = fixture.get(&resources).await.json();

        assert_eq!((&idle["verdict"], &idle["memory_limit_mb"]), (&json!("idle"), &json!(64)));
        assert!(idle["disk_mb"].as_f64().unwrap() >= 1.9, "{idle}");
        assert!(idle["operations"].as_u64().unwrap() >= 1 && idle["duration_ms"].as_u64().unwrap() > 0);
        assert_eq!((&idle["network_requests"], &idle["network_requests_limit"]), (&json!(0), &json!(7)));
        assert!(idle["cpu_percent"].is_f64() && idle["memory_peak_mb"].is_f64(), "{idle}");
        assert_eq!((&idle["troubles"], &ended["troubles"]), (&json!([]), &json!([])));
        assert_eq!(ended["verdict"], "ended");
        assert_eq!(ended["diagnosis"], "it has ended: stopped_by_user");
        assert!(ended["cpu_ms"].is_u64(), "{ended}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn diagnosis_has_measurements_and_a_fix_command() {
    with_server(|fixture| async move {
        let id = fixture.sandbox().await;
        fixture.sh_in_background(&id, sh("while :; do :; done")).await;

        let is_busy = |it: &Value| (it["troubles"][0]["kind"] == "busy").then(|| it.clone());
        let used = fixture.until("it is busy", &format!("/api/sandbox/{id}/resources"), is_busy).await;

        let trouble = &used["troubles"][0];
        assert_eq!((&used["verdict"], &used["diagnosis"]), (&json!("busy"), &trouble["means"]), "{used}");
        assert!(trouble["saw"].as_str().unwrap().starts_with("processor at "), "{used}");
        assert_eq!(trouble["resolve"], format!("pinfold stop {id}"), "{used}");
    })
    .await;
}
