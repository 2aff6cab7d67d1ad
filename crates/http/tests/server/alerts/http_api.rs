//! The HTTP API of alerts: list, acknowledge, silence, test and history.

use hyper::Method;
use pinfold_alerts::Alert;
use pinfold_api::{AlertState, ErrorCode, SilenceAlert};
use serde_json::{Value, json};

use super::receiver::Receiver;
use super::{ALWAYS, fast_alerts, with_alerts, with_webhook};
use crate::fixture::{Fixture, with_service_config};

async fn until_firing(fixture: &Fixture, alert: &str) -> Value {
    let found =
        |answer: &Value| answer["alerts"].as_array().unwrap().iter().find(|it| it["name"] == alert).cloned();
    fixture.until("it fires", "/api/alerts?state=firing", found).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_alert_is_listed_with_its_rule() {
    with_service_config(with_alerts(pinfold_notify::AlertsConfig::default()), |fixture| async move {
        let list = fixture.get("/api/alerts").await.json();

        let alerts = list["alerts"].as_array().unwrap();
        assert_eq!(alerts.len(), Alert::ALL.len());
        let of = |name: &str| alerts.iter().find(|it| it["name"] == name).unwrap();
        let leak = of("sandbox_leak_detected");
        assert_eq!(
            (&leak["title"], &leak["severity"], &leak["threshold"], &leak["sustained_s"]),
            (&json!("Sandbox Leak Detected"), &json!("critical"), &json!(20.0), &json!(300))
        );
        assert_eq!((&leak["state"], &leak["cooldown_s"]), (&json!("inactive"), &json!(3600)));
        assert_eq!(
            (&of("cleanup_failed")["state"], &of("cleanup_failed")["value"]),
            (&json!("inactive"), &json!(0.0))
        );
        let unknown = fixture.client().alerts(Some(AlertState::Unknown)).await.unwrap();
        assert!(unknown.alerts.iter().all(|alert| alert.value.is_none()));
        assert_eq!(fixture.get("/api/alerts?state=loud").await.code(), ErrorCode::BadInput);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledgement_names_the_operator() {
    with_service_config(with_alerts(fast_alerts(&[(Alert::SandboxStuck, ALWAYS)])), |fixture| async move {
        until_firing(&fixture, "sandbox_stuck").await;
        let (_, secret) = fixture.token("operator").await;

        let path = "/api/alerts/sandbox_stuck/acknowledge";
        let seen_to = fixture.request_as(Some(&secret), Method::POST, path, None).await.json();

        assert_eq!(seen_to["firings"][0]["acknowledged_by"], "operator");
        let health = fixture.get("/api/sandbox/health").await.json();
        assert_eq!(health["alerts"][0]["acknowledged"], true);
        let history = fixture.get("/api/alerts/history?name=sandbox_stuck").await.json();
        let events: Vec<_> = history["entries"].as_array().unwrap().iter().map(|it| &it["event"]).collect();
        assert_eq!(events, ["acknowledged", "fired"]);
        assert_eq!(history["entries"][0]["message"], "Stuck Sandboxes: acknowledged by operator");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silenced_alert_fires_without_notifications_until_unsilenced() {
    let receiver = Receiver::start(&[]).await;
    let mut config = with_webhook(fast_alerts(&[]), &receiver.url);
    config.notification_policy.cooldown_ms = 1;
    config.rules.set(Alert::SandboxStuck, ALWAYS);
    let fixture = Fixture::start_with_service_config(
        tempfile::tempdir().unwrap(),
        pinfold_http::ServerConfig::default(),
        with_alerts(fast_alerts(&[])),
    )
    .await;
    let spec = SilenceAlert { for_s: Some(600), reason: "moving house".into(), ..SilenceAlert::default() };
    fixture.client().silence_alert("sandbox_stuck", &spec).await.unwrap();
    fixture.end().await;
    let Fixture { data, .. } = fixture;

    // The silence is stored: the next server applies it too.
    let fixture =
        Fixture::start_with_service_config(data, pinfold_http::ServerConfig::default(), with_alerts(config))
            .await;
    let fires = until_firing(&fixture, "sandbox_stuck").await;
    assert_eq!(
        (&fires["silence"]["reason"], &fires["firings"][0]["notified"]),
        (&json!("moving house"), &json!(false))
    );
    let history = fixture.get("/api/alerts/history").await.json();
    assert_eq!(
        (&history["entries"][0]["event"], &history["entries"][0]["suppressed_by"]),
        (&json!("fired"), &json!("silence"))
    );
    assert!(receiver.received().is_empty());

    let again = fixture.client().unsilence_alert("sandbox_stuck").await.unwrap();
    assert_eq!(again.silence, None);
    receiver.until(1, |it| it.json()["name"] == "sandbox_stuck").await;
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_alert_operation_is_refused() {
    with_service_config(with_alerts(fast_alerts(&[])), |fixture| async move {
        let silence = "/api/alerts/sandbox_stuck/silence";
        for (body, field) in [
            (json!({ "reason": "x" }), "until"),
            (json!({ "for": 60, "until": "2100-01-01T00:00:00Z", "reason": "x" }), "until"),
            (json!({ "for": 0, "reason": "x" }), "for"),
            (json!({ "for": 99_999_999, "reason": "x" }), "for"),
            (json!({ "until": "soon", "reason": "x" }), "until"),
            (json!({ "until": "2001-01-01T00:00:00Z", "reason": "x" }), "until"),
            (json!({ "until": "2999-01-01T00:00:00Z", "reason": "x" }), "until"),
            (json!({ "for": 60, "reason": " " }), "reason"),
            (json!({ "for": 60, "reason": "x", "by": "me" }), "by"),
            (json!({ "for": 60 }), "reason"),
        ] {
            let refused = fixture.post(silence, body.clone()).await.json();
            assert_eq!(refused["error"]["details"]["field"], field, "{body}");
        }
        assert_eq!(
            fixture.post("/api/alerts/nonsense/acknowledge", json!({})).await.code(),
            ErrorCode::UnknownAlert
        );
        assert_eq!(
            fixture.post("/api/alerts/sandbox_stuck/acknowledge", json!({})).await.code(),
            ErrorCode::WrongState
        );
        assert_eq!(fixture.get("/api/alerts/history?name=nonsense").await.code(), ErrorCode::UnknownAlert);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn test_message_reports_the_result_of_every_channel() {
    let receiver = Receiver::start(&[]).await;
    let mut config = with_webhook(fast_alerts(&[]), &receiver.url);
    let unreachable = pinfold_notify::Redacted("http://127.0.0.1:1/hook".to_owned());
    config.receivers.entry(pinfold_alerts::EscalationLevel::AgentTeam).or_default().slack = Some(unreachable);

    with_service_config(with_alerts(config), |fixture| async move {
        let tested = fixture.client().test_alerts().await.unwrap();

        let results: Vec<_> = tested.results.iter().map(|it| (it.target.as_str(), it.delivered)).collect();
        assert_eq!(results, [("log", true), ("webhook/1", true), ("slack/1", false)]);
        assert!(!tested.results[2].message.contains("/hook"), "{:?}", tested.results[2]);
        assert_eq!(receiver.received()[0].json()["event"], "test");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn history_is_read_in_pages() {
    let fires = [(Alert::SandboxStuck, ALWAYS), (Alert::SandboxActiveHigh, ALWAYS)];
    with_service_config(with_alerts(fast_alerts(&fires)), |fixture| async move {
        until_firing(&fixture, "sandbox_stuck").await;

        let first = fixture.get("/api/alerts/history?limit=1").await.json();
        let next = format!("/api/alerts/history?limit=1&before={}", first["next"]);
        let second = fixture.get(&next).await.json();

        assert_eq!(second["next"], Value::Null);
        assert_ne!(first["entries"][0]["name"], second["entries"][0]["name"]);
    })
    .await;
}
