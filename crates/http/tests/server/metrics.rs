//! Metrics of real sandboxes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::{Method, Request};
use pinfold_api::ErrorCode;
use pinfold_engine::OnExit;
use pinfold_http::ServerConfig;
use pinfold_lifecycle::Timestamp;
use pinfold_service::LoopsConfig;
use pinfold_store::MetricStore;
use pinfold_store_sqlite::SqliteStore;
use serde_json::{Value, json};

use crate::fixture::{Answer, Fixture, start_service, with_server, with_server_config};

/// The answer of `/metrics` to a request with these `Accept` headers.
async fn scrape_accepting(fixture: &Fixture, accept: &[&str]) -> Answer {
    let request = Request::get(fixture.url("/metrics"));
    let request = request.header("authorization", format!("Bearer {}", fixture.admin));
    let request = accept.iter().fold(request, |request, accept| request.header("accept", *accept));
    fixture.send(request.body(Full::default()).unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_classic_text_unless_openmetrics_is_preferred() {
    const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";
    const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    with_server(|fixture| async move {
        for (accept, expected) in [
            (&[][..], CLASSIC),
            (&["*/*"], CLASSIC),
            (&["text/plain"], CLASSIC),
            (
                &["application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"],
                OPENMETRICS,
            ),
            (&["text/plain", "application/openmetrics-text;q=0.9"], CLASSIC),
            (&["text/plain;q=0.3", "application/openmetrics-text;q=0.4"], OPENMETRICS),
            (&["application/openmetrics-text;q=0"], CLASSIC),
        ] {
            let answer = scrape_accepting(&fixture, accept).await;
            let text = String::from_utf8(answer.bytes.to_vec()).unwrap();

            assert_eq!((answer.status, answer.header("content-type")), (200, Some(expected)), "{accept:?}");
            assert_eq!(answer.header("vary"), Some("accept"), "{accept:?}");
            let name = if expected == CLASSIC { "created_total" } else { "created" };
            for kind in ["HELP", "TYPE"] {
                assert!(text.contains(&format!("# {kind} pinfold_sandboxes_{name} ")), "{accept:?}: {text}");
            }
            assert_eq!(text.ends_with("# EOF\n"), expected == OPENMETRICS, "{accept:?}");
            assert!(text.contains("\npinfold_sandboxes_created_total 0"), "{accept:?}: {text}");
        }
    })
    .await;
}

/// Every Prometheus sample by name and labels.
async fn scraped(fixture: &Fixture) -> BTreeMap<String, f64> {
    let answer = scrape_accepting(fixture, &["application/openmetrics-text"]).await;
    assert_eq!(answer.status, 200);
    let sent_as = answer.header("content-type").unwrap().to_owned();
    assert!(sent_as.starts_with("application/openmetrics-text; version=1.0.0"), "{sent_as}");
    let text = String::from_utf8(answer.bytes.to_vec()).unwrap();
    assert!(text.ends_with("# EOF\n"));
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let read = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap())
    };
    lines.map(read).collect()
}

async fn agent(fixture: &Fixture, agent_type: &str) -> String {
    let spec = json!({ "agent_type": agent_type, "limits": { "memory_mb": 64 } });
    let made = fixture.post("/api/sandbox", spec).await;
    assert_eq!(made.status, 201, "{:?}", made.bytes);
    made.json()["id"].as_str().unwrap().to_owned()
}

/// Runs three executions of two agent types (one fails, one times out) and stops one sandbox.
async fn run_sample_workload(fixture: &Fixture) -> String {
    let one = agent(fixture, "validation").await;
    fixture.sh(&one, "exit 0").await;
    fixture.sh(&one, "exit 3").await;
    let other = agent(fixture, "hasty").await;
    fixture.sh(&other, "sleep 30").await;
    let gone = fixture.delete(&format!("/api/sandbox/{one}?force=1")).await;
    assert_eq!(gone.status, 200, "{:?}", gone.bytes);
    other
}

#[tokio::test(flavor = "multi_thread")]
async fn prometheus_metrics_match_what_happened() {
    with_server(|fixture| async move {
        run_sample_workload(&fixture).await;

        let reported = scraped(&fixture).await;

        let value = |name: &str| reported.get(name).copied();
        assert_eq!(value("pinfold_sandboxes_created_total"), Some(2.0), "{reported:#?}");
        assert_eq!(value("pinfold_sandboxes_destroyed_total"), Some(1.0));
        let executions = |agent_type: &str, cause: &str| {
            value(&format!("pinfold_executions_total{{agent_type=\"{agent_type}\",cause=\"{cause}\"}}"))
        };
        assert_eq!(executions("VALIDATION", "completed"), Some(1.0), "{reported:#?}");
        assert_eq!(executions("VALIDATION", "exit_nonzero"), Some(1.0));
        assert_eq!(executions("HASTY", "time_limit"), Some(1.0));
        assert_eq!(value("pinfold_execution_timeouts_total{agent_type=\"HASTY\"}"), Some(1.0));
        assert_eq!(value("pinfold_sandboxes_ended_total{cause=\"stopped_by_user\"}"), Some(1.0));
        assert_eq!(value("pinfold_stop_attempts_total{outcome=\"gone\"}"), Some(1.0));
        assert_eq!(value("pinfold_timeout_cleanups_total{outcome=\"gone\"}"), Some(1.0));
        assert_eq!(value("pinfold_create_seconds_count"), Some(2.0));
        assert_eq!(value("pinfold_exec_start_seconds_count"), Some(3.0));
        assert_eq!(value("pinfold_stop_seconds_count"), Some(1.0));
        assert!(value("pinfold_probe_seconds_count").unwrap() >= 2.0);
        assert_eq!(value("pinfold_sandboxes_active"), Some(1.0));
        assert_eq!(value("pinfold_sandboxes_by_age{age=\"under_1m\"}"), Some(1.0));
        assert!(value("pinfold_store_bytes").unwrap() > 0.0);
        assert_eq!(value("pinfold_memory_limit_bytes"), None, "there is no limit");
        assert!(value("pinfold_disk_free_bytes") < value("pinfold_host_disk_bytes"), "{reported:#?}");
        assert!(value("pinfold_processes_free") < value("pinfold_host_processes_limit"), "{reported:#?}");
        let creates =
            "pinfold_http_request_seconds_count{method=\"POST\",route=\"/api/sandbox\",status=\"2xx\"}";
        assert_eq!(value(creates), Some(2.0), "{reported:#?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn json_metrics_match_and_unknown_values_are_null() {
    with_server(|fixture| async move {
        let before = fixture.get("/api/sandbox/metrics").await.json();
        run_sample_workload(&fixture).await;

        let reported = fixture.get("/api/sandbox/metrics?window=5m").await.json();

        for group in ["create", "exec", "stop", "cleanup", "execution"] {
            assert_eq!(before["latencies"][group], Value::Null, "{before}");
        }
        assert_eq!(before["rates"]["failure"], Value::Null);
        assert_eq!(
            (&before["overview"]["average_lifetime_seconds"], &before["cleanup"]),
            (&Value::Null, &Value::Null)
        );
        assert_eq!((&before["window_seconds"], &reported["window_seconds"]), (&json!(3_600), &json!(300)));
        let overview = &reported["overview"];
        assert_eq!((&overview["active"], &overview["total"]), (&json!(1), &json!(2)), "{reported:#}");
        let third = |value: &Value, thirds: f64| (value.as_f64().unwrap() - thirds / 3.0).abs() < 1e-9;
        assert!(
            third(&overview["failure_rate"], 2.0) && third(&overview["timeout_rate"], 1.0),
            "{reported:#}"
        );
        let validation = &reported["by_agent_type"]["VALIDATION"];
        assert_eq!((&validation["executions"], &validation["success_rate"]), (&json!(2), &json!(0.5)));
        assert!(validation["average_cpu_seconds"].is_f64(), "{reported:#}");
        assert_eq!(
            reported["by_agent_type"]["HASTY"]["average_cpu_seconds"],
            Value::Null,
            "its sandbox has not ended"
        );
        assert_eq!(
            (&reported["rates"]["stop_success"], &reported["rates"]["inactivity"]),
            (&json!(1.0), &json!(0.0))
        );
        assert_eq!(reported["rates"]["timeout_cleanup_success"], 1.0, "its processes are gone: {reported:#}");
        let (p50, p99) = (&reported["latencies"]["stop"]["p50"], &reported["latencies"]["stop"]["p99"]);
        assert!(p50.as_f64().unwrap() > 0.0 && p50.as_f64() <= p99.as_f64(), "{reported:#}");
        let executions = &reported["latencies"]["execution"];
        assert_eq!(executions["count"], 3, "{reported:#}");
        assert!(executions["p50"].as_f64() < executions["p99"].as_f64(), "one took a second: {reported:#}");
        assert_eq!(reported["health"]["indicator"], "critical", "two of three failed");
        assert_eq!(reported["ages"]["under_1_minute"], 1);
        assert_eq!(reported["utilisation"]["memory_share"], Value::Null);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_survive_a_restart_and_are_shared_by_servers() {
    with_server(|fixture| async move {
        run_sample_workload(&fixture).await;
        let reported = fixture.get("/api/sandbox/metrics").await.json();

        let (other, _) = start_service(fixture.data.path()).await;
        let figures = other.metrics_summary(Duration::from_secs(3_600)).await.unwrap();
        let again = other.metrics(Duration::from_secs(3_600)).await.unwrap();
        other.shutdown(OnExit::Keep, 1_000).await.unwrap();

        assert_eq!((figures.executions, figures.active, figures.stuck), (3, 1, 0));
        assert_eq!(figures.failure_rate, reported["rates"]["failure"].as_f64());
        assert_eq!(figures.stop_failure_rate, Some(0.0));
        assert_eq!(serde_json::to_value(again.by_agent_type).unwrap(), reported["by_agent_type"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_scrapes_count_each_event_once() {
    with_server(|fixture| async move {
        run_sample_workload(&fixture).await;
        let asking: Vec<_> = (0..16)
            .map(|_| {
                let fixture: Arc<Fixture> = fixture.clone();
                tokio::spawn(async move { fixture.get("/metrics").await.status })
            })
            .collect();
        for asked in asking {
            assert_eq!(asked.await.unwrap(), 200);
        }

        let reported = scraped(&fixture).await;

        assert_eq!(reported["pinfold_exec_start_seconds_count"], 3.0);
        assert_eq!(reported["pinfold_create_seconds_count"], 2.0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_history_is_served_for_known_metrics_only() {
    with_server(|fixture| async move {
        let other = run_sample_workload(&fixture).await;
        let path = "/api/sandbox/metrics/history?metric=active";
        let seen = fixture.until("a gauge was sampled", path, |it| {
            let points = it["points"].as_array().unwrap();
            points.iter().find(|point| point["value"].is_f64()).cloned()
        });
        let seen = seen.await;
        let executions = fixture.get("/api/sandbox/metrics/history?metric=executions").await.json();

        assert_eq!((&seen["step_seconds"], &executions["metric"]), (&json!(60), &json!("executions")));
        let points = executions["points"].as_array().unwrap();
        let all: f64 = points.iter().filter_map(|point| point["value"].as_f64()).sum();
        assert_eq!(all, 3.0, "{executions:#}");
        for wrong in [
            "/api/sandbox/metrics/history".to_owned(),
            "/api/sandbox/metrics/history?metric=uptime".to_owned(),
            format!("/api/sandbox/metrics/history?metric={other}"),
            format!("{path}&from=yesterday"),
            format!("{path}&from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z"),
            "/api/sandbox/metrics?window=3".to_owned(),
            "/api/sandbox/metrics?window=59s".to_owned(),
            "/api/sandbox/metrics?window=8d".to_owned(),
        ] {
            let answer = fixture.get(&wrong).await;
            assert_eq!((answer.status, answer.code()), (400, ErrorCode::BadInput), "{wrong}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_need_a_viewer_token_and_labels_have_no_ids() {
    with_server_config(ServerConfig::default(), |fixture| async move {
        let id = run_sample_workload(&fixture).await;
        let (_, viewer) = fixture.token("viewer").await;

        for path in ["/metrics", "/api/sandbox/metrics", "/api/sandbox/metrics/history?metric=active"] {
            assert_eq!(fixture.request_as(None, Method::GET, path, None).await.status, 401, "{path}");
            assert_eq!(
                fixture.request_as(Some(&viewer), Method::GET, path, None).await.status,
                200,
                "{path}"
            );
        }
        fixture.get(&format!("/api/sandbox/{id}")).await;
        fixture.get("/nothing/here").await;
        let text = String::from_utf8(fixture.get("/metrics").await.bytes.to_vec()).unwrap();

        assert!(
            !text.contains("sbx_") && !text.contains("exe_") && !text.contains("/nothing/here"),
            "{text}"
        );
        assert!(text.contains("route=\"/api/sandbox/{id}\""));
        assert!(text.contains("route=\"none\",status=\"4xx\""));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_past_retention_move_to_the_archive() {
    let config = ServerConfig {
        loops: LoopsConfig { metrics_retention: Duration::from_secs(1), ..LoopsConfig::default() },
        ..ServerConfig::default()
    };
    with_server_config(config, |fixture| async move {
        let store = SqliteStore::open(&fixture.data.path().join("store")).unwrap();
        let long_ago = Timestamp(86_400_000);
        store.record_gauges(long_ago, BTreeMap::from([("active".to_owned(), 3.0)])).await.unwrap();

        while !store.metric_points(long_ago, long_ago.after_ms(1)).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }

        let archived = fixture.data.path().join("objects/archive/metrics/1970-01-02.json");
        let document: Value = serde_json::from_slice(&std::fs::read(archived).unwrap()).unwrap();
        assert_eq!(document["steps"][0]["gauges"]["active"]["sum"], 3.0, "{document}");
    })
    .await;
}
