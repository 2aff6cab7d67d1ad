//! Cleanup over HTTP: results, kept sandboxes with reasons, past runs and the schedule.

use pinfold_api::ErrorCode;
use serde_json::{Value, json};

use crate::fixture::{sh, with_server};

fn ids(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|it| it["sandbox_id"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn cleanup_leaves_busy_sandboxes_alone_and_records_its_run() {
    with_server(|fixture| async move {
        let id = fixture.sandbox().await;
        fixture.sh_in_background(&id, sh("sleep 1000")).await;

        let dry = fixture.post("/api/sandbox/cleanup?dry_run=1", json!({})).await;
        let real = fixture.client().clean_up(false).await.unwrap();
        let runs = fixture.get("/api/sandbox/cleanup/runs?limit=5").await;

        assert_eq!(dry.status, 200);
        let dry = dry.json();
        assert_eq!((&dry["dry_run"], &dry["layer"]), (&json!(true), &json!("scheduled")));
        assert_eq!((&dry["scanned"], &dry["found"], &dry["kept"]), (&json!(1), &json!([]), &json!([])));
        assert_eq!((real.scanned, real.found.len(), real.dry_run), (1, 0, false));
        let runs = runs.json();
        assert_eq!(runs.as_array().unwrap().len(), 1, "a dry run is not recorded: {runs}");
        let reported = |name: &str| runs[0][name].clone();
        assert_eq!((reported("layer"), reported("outcome")), (json!("scheduled"), json!("done")));
        assert_eq!(
            (reported("scanned"), reported("found"), reported("due_at")),
            (json!(1), json!(0), Value::Null)
        );
        let live = fixture.get(&format!("/api/sandbox/{id}")).await.json();
        assert_eq!(live["status"]["state"], "running");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn emergency_cleanup_returns_receipts_and_lists_kept_sandboxes() {
    with_server(|fixture| async move {
        let id = fixture.sandbox().await;
        let critical = fixture.post("/api/sandbox", json!({ "critical": true })).await.json();
        let critical = critical["id"].as_str().unwrap();

        let dry = fixture.post("/api/sandbox/cleanup/emergency?dry_run=1", json!({})).await.json();
        let real = fixture.post("/api/sandbox/cleanup/emergency", json!({})).await.json();
        let again = fixture.post("/api/sandbox/cleanup/emergency", json!({})).await.json();

        assert_eq!((ids(&dry["found"]), &dry["ended"]), (vec![id.as_str()], &json!([])), "{dry}");
        assert_eq!((&dry["found"], &dry["kept"]), (&real["found"], &real["kept"]));
        assert_eq!(ids(&real["ended"]), [id.as_str()], "{real}");
        let ended = &real["ended"][0];
        assert_eq!(ended["cause"], "evicted_emergency");
        let checks = ended["receipt"]["checks"].as_array().unwrap();
        assert!(!checks.is_empty() && checks.iter().all(|check| check["result"] == "absent"), "{ended}");
        assert_eq!(real["kept"], json!([{ "sandbox_id": critical, "reason": "critical" }]));
        assert_eq!((&again["found"], ids(&again["kept"])), (&json!([]), vec![critical]));
        let live = fixture.get(&format!("/api/sandbox/{critical}")).await.json();
        assert_eq!(live["status"]["state"], "ready");
        let metrics = fixture.get("/api/sandbox/metrics").await.json()["cleanup"].clone();
        assert_eq!(metrics["evicted"], json!(1), "{metrics}");
        let ill = (&metrics["stuck_terminated"], &metrics["orphaned_terminated"]);
        assert_eq!(
            ill,
            (&json!(0), &json!(0)),
            "an evicted sandbox is neither stuck nor orphaned: {metrics}"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn schedule_is_visible_and_cleanup_needs_an_admin() {
    with_server(|fixture| async move {
        let (_, operator) = fixture.token("operator").await;
        let send_as_operator = |method, path| fixture.request_as(Some(&operator), method, path, None);

        let all_planned = |turns: &Value| (turns.as_array()?.len() == 4).then(|| turns.clone());
        let turns =
            fixture.until("all layers are planned", "/api/sandbox/cleanup/schedule", all_planned).await;
        let refused = send_as_operator(hyper::Method::POST, "/api/sandbox/cleanup").await;
        let shown = send_as_operator(hyper::Method::GET, "/api/sandbox/cleanup/schedule").await;
        let mistaken = fixture.post("/api/sandbox/cleanup?layer=emergency", json!({})).await;

        let of = |layer: &str| {
            let all = turns.as_array().unwrap();
            all.iter().find(|turn| turn["layer"] == layer).unwrap()["schedule"].as_str().unwrap().to_owned()
        };
        assert_eq!((of("scheduled"), of("by_age")), ("*/5 * * * *".into(), "*/15 * * * *".into()));
        assert_eq!((of("pressure"), of("reconcile")), ("* * * * *".into(), "0 * * * *".into()));
        assert!(turns.as_array().unwrap().iter().all(|turn| turn["next_at"].is_string()));
        assert_eq!((refused.status, shown.status), (403, 200));
        assert_eq!((mistaken.status, mistaken.code()), (400, ErrorCode::BadInput));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn resource_pressure_is_measured_and_unmeasurable_resources_listed() {
    with_server(|fixture| async move {
        let measured =
            fixture.post("/api/sandbox/cleanup?layer=pressure&dry_run=true", json!({})).await.json();

        let known =
            measured["resources"].as_array().unwrap().iter().map(|it| it["resource"].as_str().unwrap());
        let unknown = measured["not_measured"].as_array().unwrap().iter().map(|it| it.as_str().unwrap());
        let mut all: Vec<_> = known.chain(unknown).collect();
        all.sort_unstable();
        assert_eq!(all, ["host_disk", "host_memory", "host_processes"], "{measured}");
    })
    .await;
}
