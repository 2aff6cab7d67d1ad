//! Figures of real sandboxes, from a real server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use pinfold_api::ErrorCode;
use pinfold_engine::OnExit;
use pinfold_lifecycle::Timestamp;
use pinfold_server::http::ServerConfig;
use pinfold_store::{Measures, SqliteStore};
use serde_json::{Value, json};

use crate::ground::{Ground, on_server, on_server_with, service_on};

/// Every line of the text by its name and labels.
async fn scraped(ground: &Ground) -> BTreeMap<String, f64> {
    let answer = ground.get("/metrics").await;
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

async fn agent(ground: &Ground, agent_type: &str) -> String {
    let wish = json!({ "agent_type": agent_type, "limits": { "memory_mb": 64 } });
    let made = ground.post("/api/sandbox", wish).await;
    assert_eq!(made.status, 201, "{:?}", made.bytes);
    made.json()["id"].as_str().unwrap().to_owned()
}

/// Three executions of two types of agents, of which one fails and one takes too long; one sandbox is gone.
async fn some_life(ground: &Ground) -> String {
    let one = agent(ground, "validation").await;
    ground.sh(&one, "exit 0").await;
    ground.sh(&one, "exit 3").await;
    let other = agent(ground, "hasty").await;
    ground.sh(&other, "sleep 30").await;
    let gone = ground.delete(&format!("/api/sandbox/{one}?force=1")).await;
    assert_eq!(gone.status, 200, "{:?}", gone.bytes);
    other
}

#[tokio::test(flavor = "multi_thread")]
async fn prometheus_is_told_what_happened() {
    on_server(|ground| async move {
        some_life(&ground).await;

        let told = scraped(&ground).await;

        let value = |name: &str| told.get(name).copied();
        assert_eq!(value("pinfold_sandboxes_created_total"), Some(2.0), "{told:#?}");
        assert_eq!(value("pinfold_sandboxes_destroyed_total"), Some(1.0));
        let executions = |agent_type: &str, cause: &str| {
            value(&format!("pinfold_executions_total{{agent_type=\"{agent_type}\",cause=\"{cause}\"}}"))
        };
        assert_eq!(executions("VALIDATION", "completed"), Some(1.0), "{told:#?}");
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
        assert!(value("pinfold_disk_left_bytes") < value("pinfold_host_disk_bytes"), "{told:#?}");
        assert!(value("pinfold_processes_left") < value("pinfold_host_processes_limit"), "{told:#?}");
        let creates =
            "pinfold_http_request_seconds_count{method=\"POST\",route=\"/api/sandbox\",status=\"2xx\"}";
        assert_eq!(value(creates), Some(2.0), "{told:#?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_is_told_as_a_document_in_groups_and_what_is_not_known_is_null() {
    on_server(|ground| async move {
        let before = ground.get("/api/sandbox/metrics").await.json();
        some_life(&ground).await;

        let told = ground.get("/api/sandbox/metrics?window=5m").await.json();

        for group in ["create", "exec", "stop", "cleanup", "execution"] {
            assert_eq!(before["latencies"][group], Value::Null, "{before}");
        }
        assert_eq!(before["rates"]["failure"], Value::Null);
        assert_eq!(
            (&before["overview"]["average_lifetime_seconds"], &before["cleanup"]),
            (&Value::Null, &Value::Null)
        );
        assert_eq!((&before["window_seconds"], &told["window_seconds"]), (&json!(3_600), &json!(300)));
        let overview = &told["overview"];
        assert_eq!((&overview["active"], &overview["total"]), (&json!(1), &json!(2)), "{told:#}");
        let third = |value: &Value, thirds: f64| (value.as_f64().unwrap() - thirds / 3.0).abs() < 1e-9;
        assert!(third(&overview["failure_rate"], 2.0) && third(&overview["timeout_rate"], 1.0), "{told:#}");
        let validation = &told["by_agent_type"]["VALIDATION"];
        assert_eq!((&validation["executions"], &validation["success_rate"]), (&json!(2), &json!(0.5)));
        assert!(validation["average_cpu_seconds"].is_f64(), "{told:#}");
        assert_eq!(told["by_agent_type"]["HASTY"]["average_cpu_seconds"], Value::Null, "it has not ended");
        assert_eq!(
            (&told["rates"]["stop_success"], &told["rates"]["inactivity"]),
            (&json!(1.0), &json!(0.0))
        );
        assert_eq!(told["rates"]["timeout_cleanup_success"], 1.0, "its processes are gone: {told:#}");
        let (p50, p99) = (&told["latencies"]["stop"]["p50"], &told["latencies"]["stop"]["p99"]);
        assert!(p50.as_f64().unwrap() > 0.0 && p50.as_f64() <= p99.as_f64(), "{told:#}");
        let executions = &told["latencies"]["execution"];
        assert_eq!(executions["count"], 3, "{told:#}");
        assert!(executions["p50"].as_f64() < executions["p99"].as_f64(), "one took a second: {told:#}");
        assert_eq!(told["health"]["indicator"], "critical", "two of three failed");
        assert_eq!(told["ages"]["under_1_minute"], 1);
        assert_eq!(told["utilisation"]["memory_share"], Value::Null);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_outlive_the_server_and_are_the_same_for_every_server_on_the_store() {
    on_server(|ground| async move {
        some_life(&ground).await;
        let told = ground.get("/api/sandbox/metrics").await.json();

        let (other, _) = service_on(ground.data.path()).await;
        let figures = other.figures(Duration::from_secs(3_600)).await.unwrap();
        let again = other.metrics(Duration::from_secs(3_600)).await.unwrap();
        other.shutdown(OnExit::Keep, 1_000).await.unwrap();

        assert_eq!((figures.executions, figures.active, figures.stuck), (3, 1, 0));
        assert_eq!(figures.failure_rate, told["rates"]["failure"].as_f64());
        assert_eq!(figures.stop_failure_rate, Some(0.0));
        assert_eq!(serde_json::to_value(again.by_agent_type).unwrap(), told["by_agent_type"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_who_count_at_once_count_each_fact_once() {
    on_server(|ground| async move {
        some_life(&ground).await;
        let asking: Vec<_> = (0..16)
            .map(|_| {
                let ground: Arc<Ground> = ground.clone();
                tokio::spawn(async move { ground.get("/metrics").await.status })
            })
            .collect();
        for asked in asking {
            assert_eq!(asked.await.unwrap(), 200);
        }

        let told = scraped(&ground).await;

        assert_eq!(told["pinfold_exec_start_seconds_count"], 3.0);
        assert_eq!(told["pinfold_create_seconds_count"], 2.0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_figure_is_told_over_time_and_only_those_of_the_list() {
    on_server(|ground| async move {
        let other = some_life(&ground).await;
        let path = "/api/sandbox/metrics/history?metric=active";
        let seen = ground.until("a minute was looked at", path, |it| {
            let points = it["points"].as_array().unwrap();
            points.iter().find(|point| point["value"].is_f64()).cloned()
        });
        let seen = seen.await;
        let executions = ground.get("/api/sandbox/metrics/history?metric=executions").await.json();

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
            let answer = ground.get(&wrong).await;
            assert_eq!((answer.status, answer.code()), (400, ErrorCode::BadInput), "{wrong}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_need_a_token_that_may_look_and_names_carry_no_id() {
    on_server_with(ServerConfig::default(), |ground| async move {
        let id = some_life(&ground).await;
        let (_, viewer) = ground.token("viewer").await;

        for path in ["/metrics", "/api/sandbox/metrics", "/api/sandbox/metrics/history?metric=active"] {
            assert_eq!(ground.ask_as(None, Method::GET, path, None).await.status, 401, "{path}");
            assert_eq!(ground.ask_as(Some(&viewer), Method::GET, path, None).await.status, 200, "{path}");
        }
        ground.get(&format!("/api/sandbox/{id}")).await;
        ground.get("/nothing/here").await;
        let text = String::from_utf8(ground.get("/metrics").await.bytes.to_vec()).unwrap();

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
async fn a_day_that_is_past_its_time_goes_from_the_store_to_the_archive() {
    let config = ServerConfig { keep_figures: Duration::from_secs(1), ..ServerConfig::default() };
    on_server_with(config, |ground| async move {
        let store = SqliteStore::open(&ground.data.path().join("store")).unwrap();
        let long_ago = Timestamp(86_400_000);
        store.sample(long_ago, BTreeMap::from([("active".to_owned(), 3.0)])).await.unwrap();

        while !store.measured(long_ago, long_ago.after_ms(1)).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }

        let archived = ground.data.path().join("objects/archive/figures/1970-01-02.json");
        let document: Value = serde_json::from_slice(&std::fs::read(archived).unwrap()).unwrap();
        assert_eq!(document["steps"][0]["gauges"]["active"]["sum"], 3.0, "{document}");
    })
    .await;
}
