//! A collector that is down, slow or refusing does not affect the server.

use std::sync::Arc;
use std::time::Duration;

use pinfold_notify::telemetry::{Collector, TelemetryConfig};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::collector::{Behaviour, Receiver, telemetry_config};
use crate::fixture::{Fixture, with_server_config};

/// Less than the export timeout.
const AT_MOST: Duration = Duration::from_secs(4);

/// Sends more requests than the span buffer holds and returns the longest duration.
async fn many_requests(fixture: &Arc<Fixture>) -> Duration {
    let mut requests = JoinSet::new();
    for _ in 0..10 {
        let fixture = fixture.clone();
        requests.spawn(async move {
            let mut longest = Duration::ZERO;
            for _ in 0..500 {
                let began = Instant::now();
                assert_eq!(fixture.get("/healthz").await.status, 200);
                longest = longest.max(began.elapsed());
            }
            longest
        });
    }
    requests.join_all().await.into_iter().max().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hanging_collector_delays_no_request_and_no_shutdown() {
    let receiver = Receiver::that(&[], Some(Behaviour::Hangs)).await;
    with_server_config(receiver.config(), |fixture| async move {
        let id = fixture.sandbox().await;
        receiver.until("it hangs on both", |it| (it.received().len() >= 2).then_some(())).await;

        let longest = many_requests(&fixture).await;
        let began = Instant::now();
        fixture.sh(&id, "exit 0").await;
        fixture.delete(&format!("/api/sandbox/{id}")).await;
        let worked = began.elapsed();
        let began = Instant::now();
        fixture.end().await;
        let ended = began.elapsed();

        assert!(longest < AT_MOST && worked < AT_MOST && ended < AT_MOST, "{longest:?} {worked:?} {ended:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unavailable_collector_is_retried_and_a_refusal_is_not() {
    let later =
        [Behaviour::Answers(503), Behaviour::Answers(429), Behaviour::Answers(200), Behaviour::Answers(400)];
    let receiver = Receiver::that(&later, None).await;
    with_server_config(receiver.config_for_traces(), |fixture| async move {
        fixture.get("/healthz").await;
        let sent = receiver
            .until("three messages", |it| Some(it.received()).filter(|received| received.len() >= 3))
            .await;
        assert!(sent[0].body == sent[1].body && sent[1].body == sent[2].body);

        fixture.get("/metrics").await;
        receiver.span("GET /metrics", &[]).await;
        fixture.get("/openapi.json").await;
        receiver.span("GET /openapi.json", &[]).await;

        let times = |name: &str| receiver.spans().iter().filter(|span| span.name == name).count();
        assert_eq!((times("GET /healthz"), times("GET /metrics")), (3, 1));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_collector_is_used_once_it_starts() {
    let receiver = Receiver::start().await;
    let address = receiver.address().to_owned();
    drop(receiver);
    let telemetry = TelemetryConfig {
        collector: Collector::new(&address).unwrap(),
        traces: true,
        metrics: true,
        interval: Duration::from_millis(300),
        service_name: "fold".into(),
    };
    let config = telemetry_config(telemetry);
    with_server_config(config, |fixture| async move {
        let began = Instant::now();
        let id = fixture.sandbox().await;
        fixture.sh(&id, "exit 0").await;
        assert!(began.elapsed() < AT_MOST);

        let receiver = Receiver::at(&address).await;

        receiver.span("exec", &[]).await;
        receiver.until("metrics arrive", |it| (!it.metrics_requests().is_empty()).then_some(())).await;
    })
    .await;
}
