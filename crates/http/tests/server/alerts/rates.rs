//! Alerts on rates over a time window, triggered by real sandboxes. They resolve when the events leave the window.

use std::time::Duration;

use pinfold_alerts::{Alert, Rule};
use serde_json::json;

use super::{fast_alerts, state_of, wait_for_state, with_alerts};
use crate::busy_mount::BusyMount;
use crate::fixture::with_service_config;

/// The built-in rule with a lower minimum.
fn with_minimum(minimum: u64, alert: Alert) -> (Alert, Rule) {
    (alert, Rule { minimum, ..alert.definition().rule })
}

const WINDOW: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn lost_runs_fire_high_then_critical_as_their_share_rises() {
    let (high, critical) = (Alert::SandboxFailureRateHigh, Alert::SandboxFailureRateCritical);
    let mut config = fast_alerts(&[with_minimum(4, high), with_minimum(4, critical)]);
    config.window = WINDOW;

    with_service_config(with_alerts(config), |fixture| async move {
        let sandbox = fixture.sandbox().await;
        for script in ["true", "true", "exit 3"] {
            fixture.sh(&sandbox, script).await;
        }
        fixture.lose_execution().await;
        let some = wait_for_state(&fixture, high, "firing").await;
        let not_yet = state_of(&fixture, critical, 0.25).await;
        fixture.lose_execution().await;
        let many = wait_for_state(&fixture, critical, "firing").await;
        // Reading the metrics writes the counted events to the store, where the impact is computed.
        fixture.get("/api/sandbox/metrics").await;
        let impact = fixture.until("the impact has the p95 of runs", "/api/alerts", |answer| {
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
            wait_for_state(&fixture, alert, "resolved").await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_that_exit_with_an_error_fire_no_failure_alert() {
    let critical = Alert::SandboxFailureRateCritical;
    let config = fast_alerts(&[with_minimum(3, critical)]);

    with_service_config(with_alerts(config), |fixture| async move {
        let sandbox = fixture.sandbox().await;
        for code in 1..=4 {
            fixture.sh(&sandbox, &format!("exit {code}")).await;
        }

        let state = state_of(&fixture, critical, 0.0).await;

        let reported = fixture.get("/api/sandbox/metrics").await.json();
        assert_eq!(
            (state.as_str(), &reported["rates"]["failure"]),
            ("inactive", &json!(0.0)),
            "{reported:#}"
        );
        assert_eq!(reported["rates"]["nonzero_exit"], 1.0, "{reported:#}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn inactive_runs_fire_as_a_rate_until_they_leave_the_window() {
    let alert = Alert::InactivityTimeoutRateHigh;
    let mut config = fast_alerts(&[with_minimum(3, alert)]);
    config.window = WINDOW;

    with_service_config(with_alerts(config), |fixture| async move {
        let sandbox = fixture.sandbox().await;
        fixture.sh(&sandbox, "true").await;
        for _ in 0..2 {
            let silent = json!({ "command": ["sleep", "30"], "inactivity_ms": 200 });
            let ran = fixture.post(&format!("/api/sandbox/{sandbox}/exec"), silent).await.json();
            assert_eq!(ran["cause"], "inactivity", "{ran}");
        }

        let reported = wait_for_state(&fixture, alert, "firing").await;

        assert!((reported["value"].as_f64().unwrap() - 2.0 / 3.0).abs() < 0.001, "{reported}");
        wait_for_state(&fixture, alert, "resolved").await;
    })
    .await;
}

/// What only real sandboxes do.
mod on_linux {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn failed_starts_fire_and_count_as_failures() {
        let (provisioning, failures) = (Alert::ProvisioningFailing, Alert::SandboxFailureRateCritical);
        let mut config = fast_alerts(&[with_minimum(3, provisioning), with_minimum(3, failures)]);
        config.window = WINDOW;
        let mut rules = with_alerts(config);
        rules.policy.start_ms = 1;

        with_service_config(rules, |fixture| async move {
            for _ in 0..3 {
                let made = fixture.post("/api/sandbox", json!({ "limits": { "memory_mb": 64 } })).await;
                assert_ne!(made.status, 201, "{:?}", made.bytes);
            }

            for alert in [provisioning, failures] {
                assert_eq!(wait_for_state(&fixture, alert, "firing").await["value"], 1.0, "{alert}");
            }
            let reported = fixture.get("/api/sandbox/metrics").await.json();
            assert_eq!(reported["rates"]["failure"], 1.0, "{reported:#}");
            assert_eq!(fixture.get("/api/sandbox/health").await.json()["failure_rate"], 1.0);
            assert_eq!(fixture.get("/api/alerts").await.json()["impact"]["executions"], 0);
            for alert in [provisioning, failures] {
                wait_for_state(&fixture, alert, "resolved").await;
            }
        })
        .await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn unproven_stops_fire_until_proven() {
        let alert = Alert::StopFailureRateHigh;
        let mut config = fast_alerts(&[with_minimum(3, alert)]);
        config.window = WINDOW;
        let mut rules = with_alerts(config);
        rules.policy.stop_backoff_ms = vec![100];
        rules.policy.stop_attempts = 1_000;

        with_service_config(rules, |fixture| async move {
            let sandbox = fixture.sandbox().await;
            let mut busy_mount = BusyMount::mount(fixture.data.path(), &sandbox);
            fixture.delete(&format!("/api/sandbox/{sandbox}?force=1&wait=0")).await;

            let reported = wait_for_state(&fixture, alert, "firing").await;
            busy_mount.remove();
            let gone = fixture.delete(&format!("/api/sandbox/{sandbox}?force=1&wait=20")).await;

            assert_eq!((&reported["value"], gone.status), (&json!(1.0), 200), "{:?}", gone.bytes);
            wait_for_state(&fixture, alert, "resolved").await;
        })
        .await;
    }
}
