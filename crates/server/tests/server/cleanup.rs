//! Cleaning up over HTTP: what is found, what is kept and why, what was done before, and when it is due.

use pinfold_api::ErrorCode;
use serde_json::{Value, json};

use crate::ground::{on_server, sh};

fn ids(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|it| it["sandbox_id"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cleanup_leaves_alone_what_is_at_work_and_is_remembered() {
    on_server(|ground| async move {
        let id = ground.sandbox().await;
        ground.sh_in_background(&id, sh("sleep 1000")).await;

        let dry = ground.post("/api/sandbox/cleanup?dry_run=1", json!({})).await;
        let real = ground.client().clean_up(false).await.unwrap();
        let runs = ground.get("/api/sandbox/cleanup/runs?limit=5").await;

        assert_eq!(dry.status, 200);
        let dry = dry.json();
        assert_eq!((&dry["dry_run"], &dry["layer"]), (&json!(true), &json!("scheduled")));
        assert_eq!((&dry["scanned"], &dry["found"], &dry["kept"]), (&json!(1), &json!([]), &json!([])));
        assert_eq!((real.scanned, real.found.len(), real.dry_run), (1, 0, false));
        let runs = runs.json();
        assert_eq!(runs.as_array().unwrap().len(), 1, "a dry run is none: {runs}");
        let told = |name: &str| runs[0][name].clone();
        assert_eq!((told("layer"), told("outcome")), (json!("scheduled"), json!("done")));
        assert_eq!((told("scanned"), told("found"), told("due_at")), (json!(1), json!(0), Value::Null));
        let live = ground.get(&format!("/api/sandbox/{id}")).await.json();
        assert_eq!(live["status"]["state"], "running");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_emergency_ends_what_is_not_critical_with_proof_and_says_what_it_kept() {
    on_server(|ground| async move {
        let id = ground.sandbox().await;
        let critical = ground.post("/api/sandbox", json!({ "critical": true })).await.json();
        let critical = critical["id"].as_str().unwrap();

        let dry = ground.post("/api/sandbox/cleanup/emergency?dry_run=1", json!({})).await.json();
        let real = ground.post("/api/sandbox/cleanup/emergency", json!({})).await.json();
        let again = ground.post("/api/sandbox/cleanup/emergency", json!({})).await.json();

        assert_eq!((ids(&dry["found"]), &dry["ended"]), (vec![id.as_str()], &json!([])), "{dry}");
        assert_eq!((&dry["found"], &dry["kept"]), (&real["found"], &real["kept"]));
        assert_eq!(ids(&real["ended"]), [id.as_str()], "{real}");
        let ended = &real["ended"][0];
        assert_eq!(ended["cause"], "evicted_emergency");
        let checks = ended["receipt"]["checks"].as_array().unwrap();
        assert!(!checks.is_empty() && checks.iter().all(|check| check["result"] == "absent"), "{ended}");
        assert_eq!(real["kept"], json!([{ "sandbox_id": critical, "reason": "critical" }]));
        assert_eq!((&again["found"], ids(&again["kept"])), (&json!([]), vec![critical]));
        let live = ground.get(&format!("/api/sandbox/{critical}")).await.json();
        assert_eq!(live["status"]["state"], "ready");
        let figures = ground.get("/api/sandbox/metrics").await.json()["cleanup"].clone();
        assert_eq!(figures["evicted"], json!(1), "{figures}");
        let ill = (&figures["stuck_terminated"], &figures["orphaned_terminated"]);
        assert_eq!(ill, (&json!(0), &json!(0)), "nothing was wrong with it: {figures}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_schedule_can_be_seen_and_only_admins_clean_up() {
    on_server(|ground| async move {
        let (_, operator) = ground.token("operator").await;
        let asked = |method, path| ground.ask_as(Some(&operator), method, path, None);

        let all_planned = |turns: &Value| (turns.as_array()?.len() == 4).then(|| turns.clone());
        let turns =
            ground.until("all layers are planned", "/api/sandbox/cleanup/schedule", all_planned).await;
        let refused = asked(hyper::Method::POST, "/api/sandbox/cleanup").await;
        let shown = asked(hyper::Method::GET, "/api/sandbox/cleanup/schedule").await;
        let mistaken = ground.post("/api/sandbox/cleanup?layer=emergency", json!({})).await;

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
async fn what_runs_short_is_measured_and_what_cannot_be_is_told() {
    on_server(|ground| async move {
        let measured =
            ground.post("/api/sandbox/cleanup?layer=pressure&dry_run=true", json!({})).await.json();

        let known =
            measured["resources"].as_array().unwrap().iter().map(|it| it["resource"].as_str().unwrap());
        let unknown = measured["not_measured"].as_array().unwrap().iter().map(|it| it.as_str().unwrap());
        let mut all: Vec<_> = known.chain(unknown).collect();
        all.sort_unstable();
        assert_eq!(all, ["host_disk", "host_memory", "host_processes"], "{measured}");
    })
    .await;
}
