//! Administration over HTTP: probes, touch, consistency checks, health, deletion of records, and the audit log.

use std::process::Command;

use pinfold_api::ErrorCode;
use pinfold_lifecycle::Policy;
use pinfold_service::ServiceConfig;
use serde_json::{Value, json};

use crate::captured_log::CapturedLog;
use crate::fixture::{Fixture, keeper_of, with_server, with_service_config};

#[tokio::test(flavor = "multi_thread")]
async fn sandbox_can_be_probed_and_touched() {
    with_server(|fixture| async move {
        let id = fixture.sandbox().await;
        let before = fixture.get(&format!("/api/sandbox/{id}")).await.json();

        let probed = fixture.post(&format!("/api/sandbox/{id}/probe"), json!({})).await;
        let touched = fixture.post(&format!("/api/sandbox/{id}/touch"), json!({})).await;

        assert_eq!((probed.status, &probed.json()["result"]), (200, &json!("passed")));
        let idle_by = |sandbox: &Value| sandbox["deadlines"]["idle_by"].as_str().unwrap().to_owned();
        assert_eq!(touched.status, 200);
        assert!(idle_by(&touched.json()) > idle_by(&before));
        fixture.delete(&format!("/api/sandbox/{id}")).await;
        for what in ["probe", "touch"] {
            let gone = fixture.post(&format!("/api/sandbox/{id}/{what}"), json!({})).await;
            assert_eq!((gone.status, gone.code()), (410, ErrorCode::SandboxGone), "{what}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sandbox_can_be_examined_alive_and_ended() {
    with_server(|fixture| async move {
        let id = fixture.sandbox().await;

        let living = fixture.post(&format!("/api/sandbox/{id}/examine"), json!({})).await.json();
        fixture.delete(&format!("/api/sandbox/{id}")).await;
        let ended = fixture.post(&format!("/api/sandbox/{id}/examine"), json!({})).await.json();

        let probes = living["probes"].as_array().unwrap();
        assert!(probes.len() >= 5 && probes.iter().all(|probe| probe["passed"] == true), "{living}");
        assert!(living["due"].as_array().unwrap().len() >= 2, "{living}");
        assert_eq!((&living["id"], &living["troubles"]), (&json!(id), &json!([])), "{living}");
        assert_eq!(
            (&ended["verdict"], &ended["probes"]),
            (&json!("it has ended: stopped_by_user"), &json!([]))
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_and_reconcile_of_a_consistent_server_find_nothing() {
    with_server(|fixture| async move {
        fixture.sandbox().await;

        for (what, dry_run) in [("audit", true), ("reconcile?wait=60", false)] {
            let found = fixture.post(&format!("/api/sandbox/{what}"), json!({})).await;

            assert_eq!(found.status, 200);
            let found = found.json();
            assert_eq!(found["dry_run"], dry_run);
            assert_eq!(found.get("unsettled"), (!dry_run).then_some(&json!(0)), "{found}");
            assert_eq!((&found["records"], &found["instances"]), (&json!(1), &json!(1)));
            for nothing in ["instances_without_record", "records_without_instance", "disagreements"] {
                assert_eq!(found[nothing], json!([]), "{nothing}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn orphan_records_and_instances_are_reported_repaired_and_logged() {
    let (reported, _guard) = CapturedLog::start();
    with_server(|fixture| async move {
        let lost = fixture.sandbox().await;
        fixture.remove_instance(&lost).await;
        let orphan = fixture.create_orphan("exec sleep 1000").await;

        let audit = fixture.post("/api/sandbox/audit", json!({})).await.json();
        let counted =
            ["Orphaned DO records: 1", "Orphaned actual sandboxes: 1"].map(|it| reported.lines(it).len());
        let repaired = fixture.post("/api/sandbox/reconcile?wait=60", json!({})).await.json();
        let stats = fixture.get("/api/sandbox/stats").await.json();
        let after = fixture.post("/api/sandbox/audit", json!({})).await.json();

        let instances = json!([{ "sandbox_id": orphan, "generation": 1 }]);
        assert_eq!((&audit["orphanedDOs"], &audit["orphanedActual"]), (&json!([lost]), &instances));
        assert_eq!((counted, audit.get("stats")), ([1, 1], None));
        assert_eq!((&repaired["unsettled"], &repaired["stats"]), (&json!(0), &stats), "{repaired}");
        assert_eq!((&stats["active"], &stats["total_destroyed"]), (&json!(0), &json!(2)));
        assert_eq!((&after["orphanedDOs"], &after["orphanedActual"]), (&json!([]), &json!([])));
        for (level, text) in [
            ("INFO", "Starting state reconciliation..."),
            ("INFO", &format!("Reconciled state for {lost}")),
            ("WARN", "orphaned sandbox"),
            ("INFO", "Reconciliation complete"),
        ] {
            let lines = reported.lines(text);
            assert!(lines.len() == 1 && lines[0].contains(level), "{text}: {lines:#?}");
        }
    })
    .await;
}

/// Unmounts a mount of a running sandbox, as an accident on the host would.
fn lose_a_mount(fixture: &Fixture, id: &str) {
    let keeper = keeper_of(fixture.data.path(), id).pid;
    let unmount = ["-t", &keeper.to_string(), "-m", "-p", "--", "umount", "-l", "/dev/shm"];
    assert!(Command::new("nsenter").args(unmount).status().unwrap().success());
}

async fn wait_until_unhealthy(fixture: &Fixture, id: &str) {
    let is_unhealthy = |seen: &Value| (seen["status"]["state"] == "unhealthy").then(|| seen.clone());
    let path = format!("/api/sandbox/{id}");
    let seen = fixture.until("its state is unhealthy", &path, is_unhealthy).await;
    assert!(seen["status"]["message"].as_str().unwrap().contains("/dev/shm"), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn health_reports_store_host_and_sandboxes() {
    with_server(|fixture| async move {
        fixture.sandbox().await;

        let health = fixture.get("/api/sandbox/health").await.json();

        assert_eq!((&health["status"], &health["stuck"]), (&json!("ok"), &json!(0)));
        assert_eq!((&health["store"]["status"], &health["provider"]["status"]), (&json!("ok"), &json!("ok")));
        assert_eq!((&health["sandboxes"]["active"], &health["nodes"]), (&json!(1), &json!(1)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_record_leaves_receipt_and_history() {
    with_server(|fixture| async move {
        let id = fixture.sandbox().await;

        let gone = fixture.delete(&format!("/api/sandbox/{id}?forget=1")).await;

        assert_eq!((gone.status, &gone.json()["cause"]), (200, &json!("stopped_by_user")));
        let again = fixture.get(&format!("/api/sandbox/{id}")).await;
        assert_eq!((again.status, again.code()), (404, ErrorCode::UnknownSandbox));
        let events = fixture.get(&format!("/api/sandbox/{id}/events")).await.json();
        assert_eq!(events["events"][0]["event"], "created");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attestation_is_refused_for_an_observable_sandbox() {
    with_server(|fixture| async move {
        let id = fixture.sandbox().await;

        let early = fixture.delete(&format!("/api/sandbox/{id}?attest=1&reason=seen")).await;
        let silent = fixture.delete(&format!("/api/sandbox/{id}?attest=1")).await;
        let idle = fixture.delete(&format!("/api/sandbox/{id}?reason=seen")).await;

        assert_eq!((early.status, early.code()), (409, ErrorCode::WrongState));
        for wrong in [silent, idle] {
            assert_eq!((wrong.status, &wrong.json()["error"]["details"]["field"]), (400, &json!("reason")));
        }
        assert_eq!(fixture.get(&format!("/api/sandbox/{id}")).await.json()["status"]["state"], "ready");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_log_names_requester_and_request() {
    with_server(|fixture| async move {
        let (token, secret) = fixture.token("operator").await;
        let send = async |method: &str, path: &str| {
            let body = (method == "POST").then(|| json!({ "limits": { "memory_mb": 64 } }));
            fixture.request_as(Some(&secret), method.parse().unwrap(), path, body).await
        };
        let id = send("POST", "/api/sandbox").await.json()["id"].as_str().unwrap().to_owned();
        send("GET", "/api/sandbox/list").await;
        send("DELETE", "/api/sandbox/nonsense").await;
        let stopped = send("DELETE", &format!("/api/sandbox/{id}")).await;
        assert_eq!(send("POST", "/api/tokens").await.status, 403);

        // An audit entry may be written shortly after the answer.
        let of_token = |page: &Value| {
            let entries = page["entries"].as_array().unwrap().clone();
            let own: Vec<_> = entries.into_iter().filter(|entry| entry["token_id"] == token).collect();
            (own.len() >= 3).then_some(own)
        };
        let noted = fixture.until("all requests are in the audit log", "/api/audit", of_token).await;

        let reported: Vec<_> =
            noted.iter().map(|it| (it["method"].as_str().unwrap(), it["status"].as_u64().unwrap())).collect();
        assert_eq!(reported.len(), 3);
        for wanted in [("POST", 201), ("DELETE", 200), ("POST", 403)] {
            assert!(reported.contains(&wanted), "{reported:?}");
        }
        let stop = noted.iter().find(|it| it["method"] == "DELETE").unwrap();
        assert_eq!(stop["token_name"], "operator");
        assert_eq!(stop["request_id"], stopped.header("x-request-id").unwrap());
        let of_sandbox = noted.iter().filter(|it| it["sandbox_id"] == id).count();
        assert_eq!(of_sandbox, 2, "the create and the stop");
        let page = fixture.get("/api/audit?limit=1").await.json();
        assert_eq!((page["entries"].as_array().unwrap().len(), &page["more"]), (1, &json!(true)));
    })
    .await;
}

/// What only real sandboxes do.
mod on_linux {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn failed_requested_probe_shows_in_the_status() {
        with_server(|fixture| async move {
            let broken = fixture.sandbox().await;
            lose_a_mount(&fixture, &broken);

            let probed = fixture.post(&format!("/api/sandbox/{broken}/probe"), json!({})).await.json();

            assert_eq!(probed["result"], json!("failed"), "{probed}");
            wait_until_unhealthy(&fixture, &broken).await;
        })
        .await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn lost_mount_is_found_by_routine_probes() {
        let rules = ServiceConfig {
            policy: Policy { probe_every_ms: 1_000, ..Policy::default() },
            ..ServiceConfig::default()
        };
        with_service_config(rules, |fixture| async move {
            let broken = fixture.sandbox().await;

            lose_a_mount(&fixture, &broken);

            wait_until_unhealthy(&fixture, &broken).await;
        })
        .await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn scheduled_comparison_finds_a_status_contradicting_a_probe() {
        with_server(|fixture| async move {
            let (_sound, broken) = (fixture.sandbox().await, fixture.sandbox().await);
            lose_a_mount(&fixture, &broken);

            let dry = fixture.post("/api/sandbox/cleanup?layer=reconcile&dry_run=1", json!({})).await.json();
            let real = fixture.post("/api/sandbox/cleanup?layer=reconcile", json!({})).await.json();

            for seen in [&dry, &real] {
                let found = &seen["found"];
                assert_eq!(found.as_array().map(Vec::len), Some(1), "{seen}");
                assert_eq!(
                    (&found[0]["sandbox_id"], &found[0]["reason"]),
                    (&json!(broken), &json!("status_disagrees"))
                );
            }
            wait_until_unhealthy(&fixture, &broken).await;
        })
        .await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn status_contradicting_a_probe_is_reported_and_repaired() {
        with_server(|fixture| async move {
            let (sound, broken) = (fixture.sandbox().await, fixture.sandbox().await);
            lose_a_mount(&fixture, &broken);

            let audit = fixture.post("/api/sandbox/audit", json!({})).await.json();
            fixture.post("/api/sandbox/reconcile?wait=0", json!({})).await;
            let is_unhealthy = |seen: &Value| (seen["status"]["state"] == "unhealthy").then_some(());
            fixture.until("its state is unhealthy", &format!("/api/sandbox/{broken}"), is_unhealthy).await;

            let found = &audit["status_disagreements"];
            assert_eq!(found.as_array().map(Vec::len), Some(1), "{audit}, beside {sound}");
            let reported = (&found[0]["sandbox_id"], &found[0]["status"], &found[0]["probe"]);
            assert_eq!(reported, (&json!(broken), &json!("ready"), &json!("failed")));
            assert!(found[0]["message"].as_str().unwrap().contains("/dev/shm"), "{found}");
        })
        .await;
    }
}
