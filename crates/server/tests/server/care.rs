//! Looking after sandboxes over HTTP: probes, idleness, comparisons, health, forgetting, and who asked.

use std::process::Command;

use pinfold_api::ErrorCode;
use pinfold_lifecycle::Policy;
use pinfold_server::Rules;
use serde_json::{Value, json};

use crate::ground::{Ground, keeper_of, on_server, on_server_under};
use crate::told::Told;

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_is_tried_and_kept() {
    on_server(|ground| async move {
        let id = ground.sandbox().await;
        let before = ground.get(&format!("/api/sandbox/{id}")).await.json();

        let probed = ground.post(&format!("/api/sandbox/{id}/probe"), json!({})).await;
        let touched = ground.post(&format!("/api/sandbox/{id}/touch"), json!({})).await;

        assert_eq!((probed.status, &probed.json()["result"]), (200, &json!("passed")));
        let idle_by = |sandbox: &Value| sandbox["deadlines"]["idle_by"].as_str().unwrap().to_owned();
        assert_eq!(touched.status, 200);
        assert!(idle_by(&touched.json()) > idle_by(&before));
        ground.delete(&format!("/api/sandbox/{id}")).await;
        for what in ["probe", "touch"] {
            let gone = ground.post(&format!("/api/sandbox/{id}/{what}"), json!({})).await;
            assert_eq!((gone.status, gone.code()), (410, ErrorCode::SandboxGone), "{what}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_is_examined_while_it_lives_and_after() {
    on_server(|ground| async move {
        let id = ground.sandbox().await;

        let living = ground.post(&format!("/api/sandbox/{id}/examine"), json!({})).await.json();
        ground.delete(&format!("/api/sandbox/{id}")).await;
        let ended = ground.post(&format!("/api/sandbox/{id}/examine"), json!({})).await.json();

        let probes = living["probes"].as_array().unwrap();
        assert!(probes.len() >= 5 && probes.iter().all(|probe| probe["passed"] == true), "{living}");
        assert!(living["due"].as_array().unwrap().len() >= 2, "{living}");
        assert_eq!((&living["id"], &living["troubles"]), (&json!(id), &json!([])), "{living}");
        assert_eq!(
            (&ended["verdict"], &ended["probes"]),
            (&json!("it has ended with stopped_by_user"), &json!([]))
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_and_bodies_are_compared() {
    on_server(|ground| async move {
        ground.sandbox().await;

        for (what, dry_run) in [("audit", true), ("reconcile?wait=60", false)] {
            let found = ground.post(&format!("/api/sandbox/{what}"), json!({})).await;

            assert_eq!(found.status, 200);
            let found = found.json();
            assert_eq!(found["dry_run"], dry_run);
            assert_eq!(found.get("unsettled"), (!dry_run).then_some(&json!(0)), "{found}");
            assert_eq!((&found["records"], &found["bodies"]), (&json!(1), &json!(1)));
            for nothing in ["bodies_without_record", "records_without_body", "disagreements"] {
                assert_eq!(found[nothing], json!([]), "{nothing}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_orphaned_on_either_side_is_named_repaired_and_told_in_the_log() {
    let (told, _here) = Told::begin();
    on_server(|ground| async move {
        let lost = ground.sandbox().await;
        ground.take_away(&lost).await;
        let orphan = ground.orphan("exec sleep 1000").await;

        let looked = ground.post("/api/sandbox/audit", json!({})).await.json();
        let counted =
            ["Orphaned DO records: 1", "Orphaned actual sandboxes: 1"].map(|it| told.lines(it).len());
        let repaired = ground.post("/api/sandbox/reconcile?wait=60", json!({})).await.json();
        let stats = ground.get("/api/sandbox/stats").await.json();
        let after = ground.post("/api/sandbox/audit", json!({})).await.json();

        let body = json!([{ "sandbox_id": orphan, "generation": 1 }]);
        assert_eq!((&looked["orphanedDOs"], &looked["orphanedActual"]), (&json!([lost]), &body));
        assert_eq!((counted, looked.get("stats")), ([1, 1], None));
        assert_eq!((&repaired["unsettled"], &repaired["stats"]), (&json!(0), &stats), "{repaired}");
        assert_eq!((&stats["active"], &stats["total_destroyed"]), (&json!(0), &json!(2)));
        assert_eq!((&after["orphanedDOs"], &after["orphanedActual"]), (&json!([]), &json!([])));
        for (level, said) in [
            ("INFO", "Starting state reconciliation..."),
            ("INFO", &format!("Reconciled state for {lost}")),
            ("WARN", "orphaned sandbox"),
            ("INFO", "Reconciliation complete"),
        ] {
            let lines = told.lines(said);
            assert!(lines.len() == 1 && lines[0].contains(level), "{said}: {lines:#?}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_that_a_probe_contradicts_is_told_and_a_repair_corrects_it() {
    on_server(|ground| async move {
        let (sound, broken) = (ground.sandbox().await, ground.sandbox().await);
        lose_a_mount(&ground, &broken);

        let looked = ground.post("/api/sandbox/audit", json!({})).await.json();
        ground.post("/api/sandbox/reconcile?wait=0", json!({})).await;
        let is_unhealthy = |seen: &Value| (seen["status"]["state"] == "unhealthy").then_some(());
        ground.until("it is known to be unhealthy", &format!("/api/sandbox/{broken}"), is_unhealthy).await;

        let found = &looked["status_disagreements"];
        assert_eq!(found.as_array().map(Vec::len), Some(1), "{looked}, beside {sound}");
        let told = (&found[0]["sandbox_id"], &found[0]["status"], &found[0]["probe"]);
        assert_eq!(told, (&json!(broken), &json!("ready"), &json!("failed")));
        assert!(found[0]["message"].as_str().unwrap().contains("/dev/shm"), "{found}");
    })
    .await;
}

/// Takes a mount of a live sandbox away, as an accident on the host would.
fn lose_a_mount(ground: &Ground, id: &str) {
    let (keeper, _) = keeper_of(ground.data.path(), &format!("{id}.1"));
    let unmount = ["-t", &keeper.to_string(), "-m", "-p", "--", "umount", "-l", "/dev/shm"];
    assert!(Command::new("nsenter").args(unmount).status().unwrap().success());
}

async fn is_found_unhealthy(ground: &Ground, id: &str) {
    let is_unhealthy = |seen: &Value| (seen["status"]["state"] == "unhealthy").then(|| seen.clone());
    let path = format!("/api/sandbox/{id}");
    let seen = ground.until("it is known to be unhealthy", &path, is_unhealthy).await;
    assert!(seen["status"]["message"].as_str().unwrap().contains("/dev/shm"), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_mount_is_found_though_nobody_asks() {
    let rules = Rules { policy: Policy { probe_every_ms: 1_000, ..Policy::default() }, ..Rules::default() };
    on_server_under(rules, |ground| async move {
        let broken = ground.sandbox().await;

        lose_a_mount(&ground, &broken);

        is_found_unhealthy(&ground, &broken).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_that_somebody_asked_for_and_that_failed_shows_in_the_status() {
    on_server(|ground| async move {
        let broken = ground.sandbox().await;
        lose_a_mount(&ground, &broken);

        let probed = ground.post(&format!("/api/sandbox/{broken}/probe"), json!({})).await.json();

        assert_eq!(probed["result"], json!("failed"), "{probed}");
        is_found_unhealthy(&ground, &broken).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hourly_comparison_finds_a_status_that_a_probe_contradicts() {
    on_server(|ground| async move {
        let (_sound, broken) = (ground.sandbox().await, ground.sandbox().await);
        lose_a_mount(&ground, &broken);

        let dry = ground.post("/api/sandbox/cleanup?layer=reconcile&dry_run=1", json!({})).await.json();
        let real = ground.post("/api/sandbox/cleanup?layer=reconcile", json!({})).await.json();

        for seen in [&dry, &real] {
            let found = &seen["found"];
            assert_eq!(found.as_array().map(Vec::len), Some(1), "{seen}");
            assert_eq!(
                (&found[0]["sandbox_id"], &found[0]["reason"]),
                (&json!(broken), &json!("status_disagrees"))
            );
        }
        is_found_unhealthy(&ground, &broken).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn health_tells_of_the_store_the_host_and_all_sandboxes() {
    on_server(|ground| async move {
        ground.sandbox().await;

        let health = ground.get("/api/sandbox/health").await.json();

        assert_eq!((&health["status"], &health["stuck"]), (&json!("ok"), &json!(0)));
        assert_eq!((&health["store"]["status"], &health["provider"]["status"]), (&json!("ok"), &json!("ok")));
        assert_eq!((&health["sandboxes"]["active"], &health["nodes"]), (&json!(1), &json!(1)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_that_is_forgotten_leaves_its_receipt_and_its_history() {
    on_server(|ground| async move {
        let id = ground.sandbox().await;

        let gone = ground.delete(&format!("/api/sandbox/{id}?forget=1")).await;

        assert_eq!((gone.status, &gone.json()["cause"]), (200, &json!("stopped_by_user")));
        let again = ground.get(&format!("/api/sandbox/{id}")).await;
        assert_eq!((again.status, again.code()), (404, ErrorCode::UnknownSandbox));
        let events = ground.get(&format!("/api/sandbox/{id}/events")).await.json();
        assert_eq!(events["events"][0]["event"], "created");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_gives_their_word_for_what_can_be_looked_at() {
    on_server(|ground| async move {
        let id = ground.sandbox().await;

        let early = ground.delete(&format!("/api/sandbox/{id}?attest=1&reason=seen")).await;
        let silent = ground.delete(&format!("/api/sandbox/{id}?attest=1")).await;
        let idle = ground.delete(&format!("/api/sandbox/{id}?reason=seen")).await;

        assert_eq!((early.status, early.code()), (409, ErrorCode::WrongState));
        for wrong in [silent, idle] {
            assert_eq!((wrong.status, &wrong.json()["error"]["details"]["field"]), (400, &json!("reason")));
        }
        assert_eq!(ground.get(&format!("/api/sandbox/{id}")).await.json()["status"]["state"], "ready");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asked_is_told_with_what_was_asked() {
    on_server(|ground| async move {
        let (token, secret) = ground.token("operator").await;
        let ask = async |method: &str, path: &str| {
            let body = (method == "POST").then(|| json!({ "limits": { "memory_mb": 64 } }));
            ground.ask_as(Some(&secret), method.parse().unwrap(), path, body).await
        };
        let id = ask("POST", "/api/sandbox").await.json()["id"].as_str().unwrap().to_owned();
        ask("GET", "/api/sandbox/list").await;
        ask("DELETE", "/api/sandbox/nonsense").await;
        let stopped = ask("DELETE", &format!("/api/sandbox/{id}")).await;
        assert_eq!(ask("POST", "/api/tokens").await.status, 403);

        // A line may come a moment after its answer.
        let of_token = |page: &Value| {
            let entries = page["entries"].as_array().unwrap().clone();
            let own: Vec<_> = entries.into_iter().filter(|entry| entry["token_id"] == token).collect();
            (own.len() >= 3).then_some(own)
        };
        let noted = ground.until("all are noted", "/api/audit", of_token).await;

        let told: Vec<_> =
            noted.iter().map(|it| (it["method"].as_str().unwrap(), it["status"].as_u64().unwrap())).collect();
        assert_eq!(told.len(), 3);
        for wanted in [("POST", 201), ("DELETE", 200), ("POST", 403)] {
            assert!(told.contains(&wanted), "{told:?}");
        }
        let stop = noted.iter().find(|it| it["method"] == "DELETE").unwrap();
        assert_eq!(stop["token_name"], "operator");
        assert_eq!(stop["request_id"], stopped.header("x-request-id").unwrap());
        let of_sandbox = noted.iter().filter(|it| it["sandbox_id"] == id).count();
        assert_eq!(of_sandbox, 2, "the create and the stop");
        let page = ground.get("/api/audit?limit=1").await.json();
        assert_eq!((page["entries"].as_array().unwrap().len(), &page["more"]), (1, &json!(true)));
    })
    .await;
}
