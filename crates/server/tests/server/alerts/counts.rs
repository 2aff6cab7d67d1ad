//! Alerts that count sandboxes, set off by real ones.

use std::process::Command;
use std::time::Duration;

use pinfold_alerts::Alert;
use serde_json::json;

use super::{ANY, above, before_long, hasty, state_of, under, until_it_is};
use crate::ground::{keeper_of, on_server_under};

#[tokio::test(flavor = "multi_thread")]
async fn more_active_sandboxes_than_there_should_be_are_told_of_until_one_is_gone() {
    let all = [Alert::SandboxActiveHigh, Alert::SandboxLeakDetected, Alert::ActiveHighSustained];
    let config = hasty(&all.map(|alert| (alert, before_long(above(1.0)))));

    on_server_under(under(config), |ground| async move {
        ground.sandbox().await;
        let one = state_of(&ground, Alert::SandboxActiveHigh, 1.0).await;
        let second = ground.sandbox().await;

        for alert in all {
            assert_eq!(until_it_is(&ground, alert, "firing").await["value"], 2.0, "{alert}");
        }
        ground.delete(&format!("/api/sandbox/{second}?force=1")).await;
        for alert in all {
            assert_eq!(until_it_is(&ground, alert, "resolved").await["value"], 1.0, "{alert}");
        }
        assert_eq!(one, "inactive");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_no_record_speaks_of_are_told_of_the_first_and_several() {
    let mut config = hasty(&[(Alert::SandboxOrphanDetected, ANY), (Alert::SandboxOrphaned, above(1.0))]);
    config.window = Duration::from_secs(10);

    on_server_under(under(config), |ground| async move {
        let found = || ground.post("/api/sandbox/reconcile?wait=60", json!({}));
        ground.orphan("exec sleep 1000").await;
        found().await;
        let detected = until_it_is(&ground, Alert::SandboxOrphanDetected, "firing").await;
        let several = state_of(&ground, Alert::SandboxOrphaned, 1.0).await;
        ground.orphan("exec sleep 1000").await;
        found().await;
        let orphaned = until_it_is(&ground, Alert::SandboxOrphaned, "firing").await;

        assert_eq!((&detected["value"], several), (&json!(1.0), "inactive".to_owned()));
        assert_eq!(orphaned["value"], 2.0);
        for alert in [Alert::SandboxOrphaned, Alert::SandboxOrphanDetected] {
            until_it_is(&ground, alert, "resolved").await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_whose_probe_fails_is_told_of_until_it_is_gone() {
    let config = hasty(&[(Alert::StatusDisagreesWithProbe, before_long(ANY))]);

    on_server_under(under(config), |ground| async move {
        let (_sound, broken) = (ground.sandbox().await, ground.sandbox().await);
        let (keeper, _) = keeper_of(ground.data.path(), &format!("{broken}.1"));
        let unmount = ["-t", &keeper.to_string(), "-m", "-p", "--", "umount", "-l", "/dev/shm"];
        assert!(Command::new("nsenter").args(unmount).status().unwrap().success());
        ground.post("/api/sandbox/reconcile?wait=0", json!({})).await;

        let told = until_it_is(&ground, Alert::StatusDisagreesWithProbe, "firing").await;
        ground.delete(&format!("/api/sandbox/{broken}?force=1")).await;

        assert_eq!(told["value"], 1.0);
        until_it_is(&ground, Alert::StatusDisagreesWithProbe, "resolved").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_body_that_is_lost_is_an_accident_and_several_are_corruption() {
    let rule = Alert::StateCorrupted.definition().rule;
    let mut config = hasty(&[(Alert::StateCorrupted, rule)]);
    config.window = Duration::from_secs(10);

    on_server_under(under(config), |ground| async move {
        let (one, other) = (ground.sandbox().await, ground.sandbox().await);
        ground.take_away(&one).await;
        ground.post("/api/sandbox/reconcile?wait=60", json!({})).await;
        let accident = state_of(&ground, Alert::StateCorrupted, 1.0).await;
        ground.take_away(&other).await;
        ground.post("/api/sandbox/reconcile?wait=60", json!({})).await;

        let corrupted = until_it_is(&ground, Alert::StateCorrupted, "firing").await;

        assert_eq!((accident.as_str(), &corrupted["value"]), ("inactive", &json!(2.0)));
        until_it_is(&ground, Alert::StateCorrupted, "resolved").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_that_cannot_be_read_are_corruption_until_their_bodies_are_proven_gone() {
    let rule = Alert::StateCorrupted.definition().rule;

    on_server_under(under(hasty(&[(Alert::StateCorrupted, rule)])), |ground| async move {
        let both = [ground.sandbox().await, ground.sandbox().await];
        ground.spoil(&both[0]);
        let accident = state_of(&ground, Alert::StateCorrupted, 1.0).await;
        ground.spoil(&both[1]);
        let corrupted = until_it_is(&ground, Alert::StateCorrupted, "firing").await;

        for sandbox in &both {
            ground.take_away(sandbox).await;
            let gone = ground.delete(&format!("/api/sandbox/{sandbox}?force=1&wait=20")).await;
            assert_eq!(gone.status, 200, "{:?}", gone.bytes);
        }

        assert_eq!((accident.as_str(), &corrupted["value"]), ("inactive", &json!(2.0)));
        until_it_is(&ground, Alert::StateCorrupted, "resolved").await;
    })
    .await;
}
