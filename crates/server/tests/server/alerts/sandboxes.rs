//! Alerts that real sandboxes set off, and that end with their cause.

use std::sync::Arc;

use pinfold_alerts::{Alert, Rule};
use serde_json::json;

use super::receiver::Receiver;
use super::{ANY, hasty, to_webhook, under, until_it_is};
use crate::ground::{Ground, on_server_under};
use crate::obstacle::Obstacle;

async fn time_out(ground: &Arc<Ground>, sandbox: &str) {
    let body = json!({ "command": ["sleep", "30"], "timeout_ms": 100 });
    let ran = ground.post(&format!("/api/sandbox/{sandbox}/exec"), body).await;
    assert_eq!(ran.json()["state"], "timed_out", "{:?}", ran.bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_that_cannot_be_ended_is_stuck_until_it_can() {
    let receiver = Receiver::begin(&[]).await;
    let config = hasty(&[(Alert::SandboxStuck, ANY), (Alert::SandboxEvent, ANY)]);
    let mut rules = under(to_webhook(config, &receiver.url));
    rules.policy.stop_backoff_ms = vec![200];
    rules.policy.stop_attempts = 1_000;

    on_server_under(rules, |ground| async move {
        let sandbox = ground.sandbox().await;
        let mut obstacle = Obstacle::put(ground.data.path(), &format!("{sandbox}.1"));

        ground.delete(&format!("/api/sandbox/{sandbox}?force=1&wait=0")).await;
        let stuck = until_it_is(&ground, Alert::SandboxStuck, "firing").await;
        let messages = receiver.until(2, |_| true).await;

        assert_eq!((&stuck["value"], &stuck["severity"]), (&json!(1.0), &json!("critical")));
        let of = |name: &str| messages.iter().map(|it| it.json()).find(|it| it["name"] == name).unwrap();
        assert_eq!(of("sandbox_stuck")["message"], "Stuck Sandboxes: 1 (above 0)");
        let event = of("sandbox_event");
        assert_eq!(event["message"], format!("Sandbox stuck: {sandbox}"));
        assert_eq!(event["context"], json!({ "sandboxId": sandbox, "event": "stuck" }));
        let health = ground.get("/api/sandbox/health").await.json();
        let active: Vec<_> = health["alerts"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
        assert_eq!(active, ["sandbox_stuck", "sandbox_event"]);

        obstacle.remove();
        until_it_is(&ground, Alert::SandboxStuck, "resolved").await;
        let end = receiver.until(1, |it| it.json()["event"] == "resolved").await[0].json();
        assert_eq!(end["message"], "Resolved after 0 min: Stuck Sandboxes");
        assert_eq!(ground.get("/api/sandbox/health").await.json()["alerts"], json!([]));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_that_take_too_long_are_told_of_each_and_together() {
    let receiver = Receiver::begin(&[]).await;
    let rule = Rule { minimum: 3, ..Alert::SandboxTimeoutHigh.definition().rule };
    let mut config = hasty(&[(Alert::SandboxTimeoutHigh, rule), (Alert::SandboxEvent, ANY)]);
    config.window = std::time::Duration::from_secs(6);

    on_server_under(under(to_webhook(config, &receiver.url)), |ground| async move {
        let sandbox = ground.sandbox().await;
        time_out(&ground, &sandbox).await;
        let event = receiver.until(1, |it| it.json()["name"] == "sandbox_event").await[0].json();
        assert_eq!(event["message"], format!("Sandbox timeout: {sandbox}"));
        assert_eq!(event["context"], json!({ "sandboxId": sandbox, "event": "timeout" }));
        assert_eq!(event["severity"], "warning");
        let early = ground.get("/api/alerts?state=firing").await.json();
        assert!(
            early["alerts"].as_array().unwrap().iter().all(|it| it["name"] == "sandbox_event"),
            "{early}"
        );

        time_out(&ground, &sandbox).await;
        ground.sh(&sandbox, "true").await;
        let high = until_it_is(&ground, Alert::SandboxTimeoutHigh, "firing").await;

        assert!((high["value"].as_f64().unwrap() - 2.0 / 3.0).abs() < 0.001, "{high}");
        let told = receiver.until(1, |it| it.json()["name"] == "sandbox_timeout_high").await[0].json();
        assert_eq!(told["message"], "High Sandbox Timeout Rate: 66.7 % (above 5 %)");
        assert_eq!(told["impact"]["executions"], 3);
        until_it_is(&ground, Alert::SandboxTimeoutHigh, "resolved").await;
        receiver.until(1, |it| it.json()["event"] == "resolved").await;
    })
    .await;
}
