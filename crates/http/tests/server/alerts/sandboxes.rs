//! Alerts about sandboxes, which resolve with their cause.

use std::sync::Arc;

use pinfold_alerts::{Alert, Rule};
use serde_json::json;

use super::receiver::Receiver;
use super::{ANY, fast_alerts, wait_for_state, with_alerts, with_webhook};
use crate::busy_mount::BusyMount;
use crate::fixture::{Fixture, with_service_config};

async fn time_out(fixture: &Arc<Fixture>, sandbox: &str) {
    let body = json!({ "command": ["sleep", "30"], "timeout_ms": 100 });
    let ran = fixture.post(&format!("/api/sandbox/{sandbox}/exec"), body).await;
    assert_eq!(ran.json()["state"], "timed_out", "{:?}", ran.bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn timed_out_runs_fire_individually_and_as_a_rate() {
    let receiver = Receiver::start(&[]).await;
    let rule = Rule { minimum: 3, ..Alert::SandboxTimeoutHigh.definition().rule };
    let mut config = fast_alerts(&[(Alert::SandboxTimeoutHigh, rule), (Alert::SandboxEvent, ANY)]);
    config.window = std::time::Duration::from_secs(6);

    with_service_config(with_alerts(with_webhook(config, &receiver.url)), |fixture| async move {
        let sandbox = fixture.sandbox().await;
        time_out(&fixture, &sandbox).await;
        let event = receiver.until(1, |it| it.json()["name"] == "sandbox_event").await[0].json();
        assert_eq!(event["message"], format!("Sandbox timeout: {sandbox}"));
        assert_eq!(event["context"], json!({ "sandboxId": sandbox, "event": "timeout" }));
        assert_eq!(event["severity"], "warning");
        let early = fixture.get("/api/alerts?state=firing").await.json();
        assert!(
            early["alerts"].as_array().unwrap().iter().all(|it| it["name"] == "sandbox_event"),
            "{early}"
        );

        time_out(&fixture, &sandbox).await;
        fixture.sh(&sandbox, "true").await;
        let high = wait_for_state(&fixture, Alert::SandboxTimeoutHigh, "firing").await;

        assert!((high["value"].as_f64().unwrap() - 2.0 / 3.0).abs() < 0.001, "{high}");
        let reported = receiver.until(1, |it| it.json()["name"] == "sandbox_timeout_high").await[0].json();
        assert_eq!(reported["message"], "High Sandbox Timeout Rate: 66.7 % (above 5 %)");
        assert_eq!(reported["impact"]["executions"], 3);
        wait_for_state(&fixture, Alert::SandboxTimeoutHigh, "resolved").await;
        receiver.until(1, |it| it.json()["event"] == "resolved").await;
    })
    .await;
}

/// What only real sandboxes do.
mod on_linux {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn sandbox_that_cannot_be_stopped_fires_until_it_can() {
        let receiver = Receiver::start(&[]).await;
        let config = fast_alerts(&[(Alert::SandboxStuck, ANY), (Alert::SandboxEvent, ANY)]);
        let mut rules = with_alerts(with_webhook(config, &receiver.url));
        rules.policy.stop_backoff_ms = vec![200];
        rules.policy.stop_attempts = 1_000;

        with_service_config(rules, |fixture| async move {
            let sandbox = fixture.sandbox().await;
            let mut busy_mount = BusyMount::mount(fixture.data.path(), &sandbox);

            fixture.delete(&format!("/api/sandbox/{sandbox}?force=1&wait=0")).await;
            let stuck = wait_for_state(&fixture, Alert::SandboxStuck, "firing").await;
            let messages = receiver.until(2, |_| true).await;

            assert_eq!((&stuck["value"], &stuck["severity"]), (&json!(1.0), &json!("critical")));
            let of = |name: &str| messages.iter().map(|it| it.json()).find(|it| it["name"] == name).unwrap();
            assert_eq!(of("sandbox_stuck")["message"], "Stuck Sandboxes: 1 (above 0)");
            let event = of("sandbox_event");
            assert_eq!(event["message"], format!("Sandbox stuck: {sandbox}"));
            assert_eq!(event["context"], json!({ "sandboxId": sandbox, "event": "stuck" }));
            let health = fixture.get("/api/sandbox/health").await.json();
            let active: Vec<_> = health["alerts"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
            assert_eq!(active, ["sandbox_stuck", "sandbox_event"]);

            busy_mount.remove();
            wait_for_state(&fixture, Alert::SandboxStuck, "resolved").await;
            let end = receiver.until(1, |it| it.json()["event"] == "resolved").await[0].json();
            assert_eq!(end["message"], "Resolved after 0 min: Stuck Sandboxes");
            assert_eq!(fixture.get("/api/sandbox/health").await.json()["alerts"], json!([]));
        })
        .await;
    }
}
