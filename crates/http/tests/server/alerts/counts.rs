//! Alerts on counts of sandboxes, triggered by real ones.

use std::process::Command;
use std::time::Duration;

use pinfold_alerts::Alert;
use serde_json::json;

use super::{ANY, above, fast_alerts, state_of, sustained_briefly, wait_for_state, with_alerts};
use crate::captured_log::CapturedLog;
use crate::fixture::{keeper_of, kill_keeper, with_service_config};

#[tokio::test(flavor = "multi_thread")]
async fn too_many_active_sandboxes_fire_until_one_is_gone() {
    let all = [Alert::SandboxActiveHigh, Alert::SandboxLeakDetected, Alert::ActiveHighSustained];
    let config = fast_alerts(&all.map(|alert| (alert, sustained_briefly(above(1.0)))));

    with_service_config(with_alerts(config), |fixture| async move {
        fixture.sandbox().await;
        let one = state_of(&fixture, Alert::SandboxActiveHigh, 1.0).await;
        let second = fixture.sandbox().await;

        for alert in all {
            assert_eq!(wait_for_state(&fixture, alert, "firing").await["value"], 2.0, "{alert}");
        }
        fixture.delete(&format!("/api/sandbox/{second}?force=1")).await;
        for alert in all {
            assert_eq!(wait_for_state(&fixture, alert, "resolved").await["value"], 1.0, "{alert}");
        }
        assert_eq!(one, "inactive");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn orphan_instances_fire_for_one_and_for_several() {
    let mut config =
        fast_alerts(&[(Alert::SandboxOrphanDetected, ANY), (Alert::SandboxOrphaned, above(1.0))]);
    config.window = Duration::from_secs(10);

    with_service_config(with_alerts(config), |fixture| async move {
        let found = || fixture.post("/api/sandbox/reconcile?wait=60", json!({}));
        fixture.create_orphan("exec sleep 1000").await;
        found().await;
        let detected = wait_for_state(&fixture, Alert::SandboxOrphanDetected, "firing").await;
        let several = state_of(&fixture, Alert::SandboxOrphaned, 1.0).await;
        fixture.create_orphan("exec sleep 1000").await;
        found().await;
        let orphaned = wait_for_state(&fixture, Alert::SandboxOrphaned, "firing").await;

        assert_eq!((&detected["value"], several), (&json!(1.0), "inactive".to_owned()));
        assert_eq!(orphaned["value"], 2.0);
        for alert in [Alert::SandboxOrphaned, Alert::SandboxOrphanDetected] {
            wait_for_state(&fixture, alert, "resolved").await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn several_lost_instances_fire_as_corruption() {
    let rule = Alert::StateCorrupted.definition().rule;
    let mut config = fast_alerts(&[(Alert::StateCorrupted, rule)]);
    config.window = Duration::from_secs(10);

    with_service_config(with_alerts(config), |fixture| async move {
        let (one, other) = (fixture.sandbox().await, fixture.sandbox().await);
        fixture.remove_instance(&one).await;
        fixture.post("/api/sandbox/reconcile?wait=60", json!({})).await;
        let accident = state_of(&fixture, Alert::StateCorrupted, 1.0).await;
        fixture.remove_instance(&other).await;
        fixture.post("/api/sandbox/reconcile?wait=60", json!({})).await;

        let corrupted = wait_for_state(&fixture, Alert::StateCorrupted, "firing").await;

        assert_eq!((accident.as_str(), &corrupted["value"]), ("inactive", &json!(2.0)));
        wait_for_state(&fixture, Alert::StateCorrupted, "resolved").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_records_fire_until_their_instances_are_gone() {
    let rule = Alert::StateCorrupted.definition().rule;

    with_service_config(with_alerts(fast_alerts(&[(Alert::StateCorrupted, rule)])), |fixture| async move {
        let both = [fixture.sandbox().await, fixture.sandbox().await];
        fixture.corrupt_row(&both[0]);
        let accident = state_of(&fixture, Alert::StateCorrupted, 1.0).await;
        fixture.corrupt_row(&both[1]);
        let corrupted = wait_for_state(&fixture, Alert::StateCorrupted, "firing").await;

        for sandbox in &both {
            fixture.remove_instance(sandbox).await;
            let gone = fixture.delete(&format!("/api/sandbox/{sandbox}?force=1&wait=20")).await;
            assert_eq!(gone.status, 200, "{:?}", gone.bytes);
        }

        assert_eq!((accident.as_str(), &corrupted["value"]), ("inactive", &json!(2.0)));
        wait_for_state(&fixture, Alert::StateCorrupted, "resolved").await;
    })
    .await;
}

/// What only real sandboxes do.
mod on_linux {
    use super::*;

    #[tokio::test]
    async fn killed_keepers_are_told_with_their_signal_and_fire_as_corruption() {
        let rule = Alert::StateCorrupted.definition().rule;
        let (reported, _guard) = CapturedLog::start();

        with_service_config(
            with_alerts(fast_alerts(&[(Alert::StateCorrupted, rule)])),
            |fixture| async move {
                let mut killed = Vec::new();
                for _ in 0..3 {
                    killed.push(fixture.sandbox().await);
                }
                for sandbox in &killed {
                    kill_keeper(fixture.data.path(), sandbox);
                }

                let fired = wait_for_state(&fixture, Alert::StateCorrupted, "firing").await;
                for sandbox in &killed {
                    let path = format!("/api/sandbox/{sandbox}/wait?state=gone&wait=30");
                    let seen = fixture.get(&path).await.json();
                    assert_eq!(
                        (&seen["cause"], &seen["status"]["message"]),
                        (&json!("keeper_killed"), &json!("its keeper was killed by signal 9")),
                        "{seen:#}"
                    );
                    assert_eq!(reported.lines(&format!("Reconciled state for {sandbox}")).len(), 1);
                    let warnings = reported.lines(&format!("the keeper of {sandbox} was killed"));
                    assert!(warnings.len() == 1 && warnings[0].contains("WARN"), "{warnings:#?}");
                }
                assert!(fired["value"].as_f64().unwrap() >= 2.0, "{fired}");
            },
        )
        .await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn unhealthy_sandbox_fires_until_it_is_gone() {
        let config = fast_alerts(&[(Alert::StatusDisagreesWithProbe, sustained_briefly(ANY))]);

        with_service_config(with_alerts(config), |fixture| async move {
            let (_sound, broken) = (fixture.sandbox().await, fixture.sandbox().await);
            let keeper = keeper_of(fixture.data.path(), &broken).pid;
            let unmount = ["-t", &keeper.to_string(), "-m", "-p", "--", "umount", "-l", "/dev/shm"];
            assert!(Command::new("nsenter").args(unmount).status().unwrap().success());
            fixture.post("/api/sandbox/reconcile?wait=0", json!({})).await;

            let reported = wait_for_state(&fixture, Alert::StatusDisagreesWithProbe, "firing").await;
            fixture.delete(&format!("/api/sandbox/{broken}?force=1")).await;

            assert_eq!(reported["value"], 1.0);
            wait_for_state(&fixture, Alert::StatusDisagreesWithProbe, "resolved").await;
        })
        .await;
    }
}
