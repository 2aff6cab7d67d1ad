//! A collector that is down, slow or refuses stops nothing and nobody.

use std::sync::Arc;
use std::time::Duration;

use pinfold_server::http::ServerConfig;
use pinfold_server::{Collector, TelemetryConfig};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::collector::{Manner, Receiver};
use crate::ground::{Ground, on_server_with};

/// Less than the collector is waited for.
const AT_MOST: Duration = Duration::from_secs(4);

/// The longest that one of these took: more requests than there is room for spans.
async fn many_requests(ground: &Arc<Ground>) -> Duration {
    let mut askers = JoinSet::new();
    for _ in 0..10 {
        let ground = ground.clone();
        askers.spawn(async move {
            let mut longest = Duration::ZERO;
            for _ in 0..500 {
                let began = Instant::now();
                assert_eq!(ground.get("/healthz").await.status, 200);
                longest = longest.max(began.elapsed());
            }
            longest
        });
    }
    askers.join_all().await.into_iter().max().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_hangs_holds_up_no_request_and_no_end() {
    let receiver = Receiver::that(&[], Some(Manner::Hangs)).await;
    on_server_with(receiver.config(), |ground| async move {
        let id = ground.sandbox().await;
        receiver.until("it hangs on both", |it| (it.got().len() >= 2).then_some(())).await;

        let longest = many_requests(&ground).await;
        let began = Instant::now();
        ground.sh(&id, "exit 0").await;
        ground.delete(&format!("/api/sandbox/{id}")).await;
        let worked = began.elapsed();
        let began = Instant::now();
        ground.end().await;
        let ended = began.elapsed();

        assert!(longest < AT_MOST && worked < AT_MOST && ended < AT_MOST, "{longest:?} {worked:?} {ended:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_collector_could_not_take_is_sent_again_and_what_it_refuses_is_not() {
    let later = [Manner::Answers(503), Manner::Answers(429), Manner::Answers(200), Manner::Answers(400)];
    let receiver = Receiver::that(&later, None).await;
    on_server_with(receiver.config_for_traces(), |ground| async move {
        ground.get("/healthz").await;
        let sent = receiver.until("three messages", |it| Some(it.got()).filter(|got| got.len() >= 3)).await;
        assert!(sent[0].body == sent[1].body && sent[1].body == sent[2].body);

        ground.get("/metrics").await;
        receiver.span("GET /metrics", &[]).await;
        ground.get("/openapi.json").await;
        receiver.span("GET /openapi.json", &[]).await;

        let times = |name: &str| receiver.spans().iter().filter(|span| span.name == name).count();
        assert_eq!((times("GET /healthz"), times("GET /metrics")), (3, 1));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_is_not_there_is_found_when_it_comes() {
    let receiver = Receiver::begin().await;
    let address = receiver.address.clone();
    drop(receiver);
    let telemetry = TelemetryConfig {
        collector: Collector::at(&address).unwrap(),
        traces: true,
        metrics: true,
        interval: Duration::from_millis(300),
        service_name: "fold".into(),
    };
    let config = ServerConfig { telemetry: Some(telemetry), ..ServerConfig::default() };
    on_server_with(config, |ground| async move {
        let began = Instant::now();
        let id = ground.sandbox().await;
        ground.sh(&id, "exit 0").await;
        assert!(began.elapsed() < AT_MOST);

        let receiver = Receiver::at(&address).await;

        receiver.span("exec", &[]).await;
        receiver.until("figures", |it| (!it.figures().is_empty()).then_some(())).await;
    })
    .await;
}
