//! Webhook and Slack notifications: signatures, retries, and independent delivery.

use std::collections::BTreeMap;

use pinfold_alerts::{Alert, EscalationLevel};
use pinfold_notify::{Receivers, Redacted, Routes, Webhook};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::receiver::{Behaviour, Receiver};
use super::{ALWAYS, SECRET, fast_alerts, with_alerts, with_webhook};
use crate::fixture::with_service_config;

/// HMAC by its definition, independent of the server's library.
fn hmac_sha256(key: &[u8], message: &[u8]) -> String {
    assert!(key.len() <= 64);
    let pad = |with: u8| -> Vec<u8> { (0..64).map(|at| key.get(at).copied().unwrap_or(0) ^ with).collect() };
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(message).finalize();
    let outer = Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize();
    outer.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn firing_alert_calls_the_webhook_once_with_a_signature() {
    let receiver = Receiver::start(&[]).await;
    let config = with_webhook(fast_alerts(&[(Alert::SandboxActiveHigh, ALWAYS)]), &receiver.url);

    with_service_config(with_alerts(config), |fixture| async move {
        let received = receiver.until(1, |_| true).await.remove(0);

        let signed = [received.header("x-pinfold-timestamp").as_bytes(), b".", &received.body].concat();
        let expected = format!("sha256={}", hmac_sha256(SECRET.as_bytes(), &signed));
        assert_eq!(received.header("x-pinfold-signature"), expected);
        let notice = received.json();
        assert_eq!(notice["delivery_id"], received.header("x-pinfold-delivery"));
        assert_eq!(
            (&notice["name"], &notice["title"], &notice["severity"], &notice["event"]),
            (
                &json!("sandbox_active_high"),
                &json!("Many Active Sandboxes"),
                &json!("warning"),
                &json!("fired")
            )
        );
        assert_eq!(notice["affects"], json!(["agent execution latency", "sandbox provisioning"]));
        assert_eq!(notice["runbook"], "docs/runbook.md#1-how-many-are-there-2-minutes");
        assert_eq!(notice["impact"]["executions"], 0);
        let delivered = |answer: &Value| {
            let all = answer["deliveries"].as_array().unwrap();
            all.iter().all(|it| it["state"] == "delivered").then_some(all.len())
        };
        assert_eq!(fixture.until("the delivery is recorded", "/api/alerts/deliveries", delivered).await, 1);
        assert_eq!(receiver.received().len(), 1, "it was sent twice");
        assert!(!fixture.get("/api/alerts/deliveries").await.bytes.windows(6).any(|it| it == b"signin"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_notification_is_retried_with_the_same_id() {
    let receiver =
        Receiver::start(&[Behaviour::Answers(500), Behaviour::Hangs, Behaviour::Answers(302)]).await;
    let mut config = with_webhook(fast_alerts(&[(Alert::SandboxActiveHigh, ALWAYS)]), &receiver.url);
    config.retry.timeout = std::time::Duration::from_secs(2);

    with_service_config(with_alerts(config), |fixture| async move {
        let received = receiver.until(4, |_| true).await;

        let ids: Vec<_> = received.iter().map(|it| it.header("x-pinfold-delivery").to_owned()).collect();
        assert!(ids.iter().all(|id| id == &ids[0]), "{ids:?}");
        let last = |answer: &Value| {
            let delivery = &answer["deliveries"][0];
            (delivery["state"] == "delivered").then(|| delivery.clone())
        };
        let delivery = fixture.until("it is delivered", "/api/alerts/deliveries", last).await;
        // On a busy machine another attempt may have timed out.
        assert!(delivery["attempts"].as_u64().unwrap() >= 4, "{delivery}");
        assert_eq!(delivery["id"], json!(ids[0]));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn undeliverable_notification_is_given_up() {
    let receiver = Receiver::start(&[Behaviour::Answers(503); 10]).await;
    let mut config = with_webhook(fast_alerts(&[(Alert::SandboxActiveHigh, ALWAYS)]), &receiver.url);
    config.retry.attempts = 3;

    with_service_config(with_alerts(config), |fixture| async move {
        let given_up = |answer: &Value| {
            let delivery = &answer["deliveries"][0];
            (delivery["state"] == "given_up").then(|| delivery.clone())
        };
        let delivery = fixture.until("it is given up", "/api/alerts/deliveries", given_up).await;

        assert_eq!((&delivery["attempts"], &delivery["last_result"]), (&json!(3), &json!("it answered 503")));
        assert_eq!(receiver.received().len(), 3);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hanging_receiver_does_not_delay_others() {
    let (stubborn, quick) = (Receiver::start(&[Behaviour::Hangs; 1_000]).await, Receiver::start(&[]).await);
    let all: Vec<_> = Alert::ALL.iter().map(|alert| (*alert, ALWAYS)).collect();
    let mut config = with_webhook(fast_alerts(&all), &stubborn.url);
    config.receivers.entry(EscalationLevel::AgentTeam).or_default().slack = Some(Redacted(quick.url.clone()));
    config.retry.timeout = std::time::Duration::from_secs(30);
    config.retry.claim = std::time::Duration::from_secs(60);

    with_service_config(with_alerts(config), |fixture| async move {
        let known = fixture.get("/api/alerts?state=firing").await.json();
        let fires = known["alerts"].as_array().unwrap().len();

        quick.until(fires.max(10), |_| true).await;

        assert!(fixture.get("/api/sandbox/stats").await.status == 200);
        assert!(stubborn.received().len() <= 8, "{}", stubborn.received().len());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slack_message_has_a_text_and_blocks() {
    let receiver = Receiver::start(&[]).await;
    let mut config = fast_alerts(&[(Alert::SandboxStuck, ALWAYS)]);
    let slack = Receivers { slack: Some(Redacted(receiver.url.clone())), ..Receivers::default() };
    config.receivers = BTreeMap::from([(EscalationLevel::AgentTeam, slack)]);

    with_service_config(with_alerts(config), |_| async move {
        let body = receiver.until(1, |_| true).await[0].json();

        assert_eq!(body["text"], ":rotating_light: Stuck Sandboxes: 0 (above -1)");
        let blocks = body["blocks"].as_array().unwrap();
        let kinds: Vec<_> = blocks.iter().map(|block| block["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["header", "section", "context"]);
        assert_eq!(blocks[0]["text"]["type"], "plain_text");
        assert_eq!(blocks[1]["text"]["text"], "Stuck Sandboxes: 0 (above -1)");
        let details = blocks[2]["elements"][0]["text"].as_str().unwrap();
        assert!(details.contains("#2-which-ones-are-stuck-3-minutes|runbook>"), "{details}");
        let impact = blocks[2]["elements"][1]["text"].as_str().unwrap();
        assert!(impact.starts_with("Executions that ended lately: 0, failed 0.0 %"), "{impact}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_level_and_each_severity_has_its_own_receivers() {
    let [first, second] = [Receiver::start(&[]).await, Receiver::start(&[]).await];
    let fires =
        [(Alert::SandboxActiveHigh, ALWAYS), (Alert::SandboxStuck, ALWAYS), (Alert::StateCorrupted, ALWAYS)];
    let mut config = fast_alerts(&fires);
    let to = |receiver: &Receiver| {
        let webhook = Webhook { url: Redacted(receiver.url.clone()), secret: None };
        Receivers { webhook: Some(webhook), ..Receivers::default() }
    };
    config.receivers = BTreeMap::from([
        (EscalationLevel::AgentTeam, to(&first)),
        (EscalationLevel::Infrastructure, to(&second)),
    ]);
    config.routes = Routes { warning: vec![], ..Routes::default() };

    with_service_config(with_alerts(config), |fixture| async move {
        let first = first.until(1, |_| true).await;
        let second = second.until(1, |_| true).await;
        fixture
            .until("the warning is known", "/api/alerts/history?name=sandbox_active_high", |it| {
                (!it["entries"].as_array().unwrap().is_empty()).then_some(())
            })
            .await;

        assert_eq!((first.len(), &first[0].json()["name"]), (1, &json!("sandbox_stuck")));
        assert_eq!((second.len(), &second[0].json()["name"]), (1, &json!("state_corrupted")));
        assert_eq!(first[0].header("x-pinfold-signature"), "");
    })
    .await;
}
