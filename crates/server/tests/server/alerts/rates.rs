//! Alerts that go by shares of what happened lately, set off by real sandboxes. They end when that is no longer lately.

use std::time::Duration;

use pinfold_alerts::{Alert, Rule};
use serde_json::json;

use super::{hasty, state_of, under, until_it_is};
use crate::ground::on_server_under;
use crate::obstacle::Obstacle;

/// As it is decided for everybody, but of fewer.
fn of_at_least(minimum: u64, alert: Alert) -> (Alert, Rule) {
    (alert, Rule { minimum, ..alert.definition().rule })
}

const WINDOW: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn runs_that_fail_are_told_of_the_louder_the_more_of_them_do_and_with_what_users_notice() {
    let (high, critical) = (Alert::SandboxFailureRateHigh, Alert::SandboxFailureRateCritical);
    let mut config = hasty(&[of_at_least(4, high), of_at_least(4, critical)]);
    config.window = WINDOW;

    on_server_under(under(config), |ground| async move {
        let sandbox = ground.sandbox().await;
        for script in ["true", "true", "true", "exit 3"] {
            ground.sh(&sandbox, script).await;
        }
        let some = until_it_is(&ground, high, "firing").await;
        let not_yet = state_of(&ground, critical, 0.25).await;
        ground.sh(&sandbox, "exit 4").await;
        let many = until_it_is(&ground, critical, "firing").await;
        // What was counted is told: it counts.
        ground.get("/api/sandbox/metrics").await;
        let impact = ground.until("it is known how long runs take", "/api/alerts", |answer| {
            let impact = &answer["impact"];
            impact["execution"]["lately_p95_seconds"].is_f64().then(|| impact.clone())
        });
        let impact = impact.await;

        assert_eq!(
            (&some["value"], not_yet.as_str(), &many["value"]),
            (&json!(0.25), "inactive", &json!(0.4))
        );
        assert!(impact["exec_start"]["lately_p95_seconds"].as_f64() > Some(0.0), "{impact}");
        assert!(impact["exec_start"]["usual_p95_seconds"].as_f64() > Some(0.0), "{impact}");
        for alert in [high, critical] {
            until_it_is(&ground, alert, "resolved").await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn starts_that_come_to_nothing_are_told_of_and_are_failures_for_alerts_as_for_metrics() {
    let (provisioning, failures) = (Alert::ProvisioningFailing, Alert::SandboxFailureRateCritical);
    let mut config = hasty(&[of_at_least(3, provisioning), of_at_least(3, failures)]);
    config.window = WINDOW;
    let mut rules = under(config);
    rules.policy.start_ms = 1;

    on_server_under(rules, |ground| async move {
        for _ in 0..3 {
            let made = ground.post("/api/sandbox", json!({ "limits": { "memory_mb": 64 } })).await;
            assert_ne!(made.status, 201, "{:?}", made.bytes);
        }

        for alert in [provisioning, failures] {
            assert_eq!(until_it_is(&ground, alert, "firing").await["value"], 1.0, "{alert}");
        }
        let told = ground.get("/api/sandbox/metrics").await.json();
        assert_eq!(told["rates"]["failure"], 1.0, "{told:#}");
        assert_eq!(ground.get("/api/sandbox/health").await.json()["failure_rate"], 1.0);
        assert_eq!(ground.get("/api/alerts").await.json()["impact"]["executions"], 0);
        for alert in [provisioning, failures] {
            until_it_is(&ground, alert, "resolved").await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_that_fall_silent_are_told_of() {
    let alert = Alert::InactivityTimeoutRateHigh;
    let mut config = hasty(&[of_at_least(3, alert)]);
    config.window = WINDOW;

    on_server_under(under(config), |ground| async move {
        let sandbox = ground.sandbox().await;
        ground.sh(&sandbox, "true").await;
        for _ in 0..2 {
            let silent = json!({ "command": ["sleep", "30"], "inactivity_ms": 200 });
            let ran = ground.post(&format!("/api/sandbox/{sandbox}/exec"), silent).await.json();
            assert_eq!(ran["cause"], "inactivity", "{ran}");
        }

        let told = until_it_is(&ground, alert, "firing").await;

        assert!((told["value"].as_f64().unwrap() - 2.0 / 3.0).abs() < 0.001, "{told}");
        until_it_is(&ground, alert, "resolved").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stops_that_prove_nothing_are_told_of_until_they_do() {
    let alert = Alert::StopFailureRateHigh;
    let mut config = hasty(&[of_at_least(3, alert)]);
    config.window = WINDOW;
    let mut rules = under(config);
    rules.policy.stop_backoff_ms = vec![100];
    rules.policy.stop_attempts = 1_000;

    on_server_under(rules, |ground| async move {
        let sandbox = ground.sandbox().await;
        let mut obstacle = Obstacle::put(ground.data.path(), &format!("{sandbox}.1"));
        ground.delete(&format!("/api/sandbox/{sandbox}?force=1&wait=0")).await;

        let told = until_it_is(&ground, alert, "firing").await;
        obstacle.remove();
        let gone = ground.delete(&format!("/api/sandbox/{sandbox}?force=1&wait=20")).await;

        assert_eq!((&told["value"], gone.status), (&json!(1.0), 200), "{:?}", gone.bytes);
        until_it_is(&ground, alert, "resolved").await;
    })
    .await;
}
