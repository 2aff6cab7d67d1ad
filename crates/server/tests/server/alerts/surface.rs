//! What people ask about alerts and want of them, over HTTP.

use hyper::Method;
use pinfold_alerts::Alert;
use pinfold_api::{AlertState, ErrorCode, SilenceAlert};
use serde_json::{Value, json};

use super::receiver::Receiver;
use super::{ALWAYS, hasty, to_webhook, under};
use crate::ground::{Ground, on_server_under};

async fn until_firing(ground: &Ground, alert: &str) -> Value {
    let found =
        |answer: &Value| answer["alerts"].as_array().unwrap().iter().find(|it| it["name"] == alert).cloned();
    ground.until("it fires", "/api/alerts?state=firing", found).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_alert_is_listed_with_all_that_is_decided_about_it() {
    on_server_under(under(pinfold_server::alerts::AlertsConfig::default()), |ground| async move {
        let list = ground.get("/api/alerts").await.json();

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
        let unknown = ground.client().alerts(Some(AlertState::Unknown)).await.unwrap();
        assert!(unknown.alerts.iter().all(|alert| alert.value.is_none()));
        assert_eq!(ground.get("/api/alerts?state=loud").await.code(), ErrorCode::BadInput);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_sees_to_an_alert_is_told_by_name() {
    on_server_under(under(hasty(&[(Alert::SandboxStuck, ALWAYS)])), |ground| async move {
        until_firing(&ground, "sandbox_stuck").await;
        let (_, secret) = ground.token("operator").await;

        let path = "/api/alerts/sandbox_stuck/acknowledge";
        let seen_to = ground.ask_as(Some(&secret), Method::POST, path, None).await.json();

        assert_eq!(seen_to["firings"][0]["acknowledged_by"], "operator");
        let health = ground.get("/api/sandbox/health").await.json();
        assert_eq!(health["alerts"][0]["acknowledged"], true);
        let history = ground.get("/api/alerts/history?name=sandbox_stuck").await.json();
        let events: Vec<_> = history["entries"].as_array().unwrap().iter().map(|it| &it["event"]).collect();
        assert_eq!(events, ["acknowledged", "fired"]);
        assert_eq!(history["entries"][0]["message"], "Stuck Sandboxes: acknowledged by operator");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silenced_alert_fires_and_calls_nobody_until_the_silence_is_taken_back() {
    let receiver = Receiver::begin(&[]).await;
    let mut config = to_webhook(hasty(&[]), &receiver.url);
    config.habits.cooldown_ms = 1;
    config.rules.put(Alert::SandboxStuck, ALWAYS);
    let ground = Ground::begin_under(
        tempfile::tempdir().unwrap(),
        pinfold_server::http::ServerConfig::default(),
        under(hasty(&[])),
    )
    .await;
    let wish = SilenceAlert { for_s: Some(600), reason: "moving house".into(), ..SilenceAlert::default() };
    ground.client().silence_alert("sandbox_stuck", &wish).await.unwrap();
    ground.end().await;
    let Ground { data, .. } = ground;

    // The silence is kept by the store: the next server heeds it, too.
    let ground =
        Ground::begin_under(data, pinfold_server::http::ServerConfig::default(), under(config)).await;
    let fires = until_firing(&ground, "sandbox_stuck").await;
    assert_eq!(
        (&fires["silence"]["reason"], &fires["firings"][0]["told"]),
        (&json!("moving house"), &json!(false))
    );
    let history = ground.get("/api/alerts/history").await.json();
    assert_eq!(
        (&history["entries"][0]["event"], &history["entries"][0]["untold"]),
        (&json!("fired"), &json!("silence"))
    );
    assert!(receiver.got().is_empty());

    let again = ground.client().unsilence_alert("sandbox_stuck").await.unwrap();
    assert_eq!(again.silence, None);
    receiver.until(1, |it| it.json()["name"] == "sandbox_stuck").await;
    ground.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_done_is_refused() {
    on_server_under(under(hasty(&[])), |ground| async move {
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
            let refused = ground.post(silence, body.clone()).await.json();
            assert_eq!(refused["error"]["details"]["field"], field, "{body}");
        }
        assert_eq!(
            ground.post("/api/alerts/nonsense/acknowledge", json!({})).await.code(),
            ErrorCode::UnknownAlert
        );
        assert_eq!(
            ground.post("/api/alerts/sandbox_stuck/acknowledge", json!({})).await.code(),
            ErrorCode::WrongState
        );
        assert_eq!(ground.get("/api/alerts/history?name=nonsense").await.code(), ErrorCode::UnknownAlert);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_message_goes_every_way_and_says_what_came_of_it() {
    let receiver = Receiver::begin(&[]).await;
    let mut config = to_webhook(hasty(&[]), &receiver.url);
    let nobody = pinfold_server::alerts::Hidden("http://127.0.0.1:1/hook".to_owned());
    config.receivers.entry(pinfold_alerts::Level::AgentTeam).or_default().slack = Some(nobody);

    on_server_under(under(config), |ground| async move {
        let tested = ground.client().test_alerts().await.unwrap();

        let results: Vec<_> = tested.results.iter().map(|it| (it.target.as_str(), it.delivered)).collect();
        assert_eq!(results, [("log", true), ("webhook/1", true), ("slack/1", false)]);
        assert!(!tested.results[2].message.contains("/hook"), "{:?}", tested.results[2]);
        assert_eq!(receiver.got()[0].json()["event"], "test");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn history_is_read_in_pages() {
    let fires = [(Alert::SandboxStuck, ALWAYS), (Alert::SandboxActiveHigh, ALWAYS)];
    on_server_under(under(hasty(&fires)), |ground| async move {
        until_firing(&ground, "sandbox_stuck").await;

        let first = ground.get("/api/alerts/history?limit=1").await.json();
        let next = format!("/api/alerts/history?limit=1&before={}", first["next"]);
        let second = ground.get(&next).await.json();

        assert_eq!(second["next"], Value::Null);
        assert_ne!(first["entries"][0]["name"], second["entries"][0]["name"]);
    })
    .await;
}
