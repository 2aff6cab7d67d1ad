//! The collector is told what `/metrics` tells.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, Metric, number_data_point};
use pinfold_server::http::ServerConfig;
use pinfold_server::{Collector, TelemetryConfig};
use serde_json::json;

use super::collector::{Receiver, attributes};
use crate::ground::{Ground, on_server_with};

/// Every line by its name, and its labels in the order of their names.
type Lines = BTreeMap<(String, BTreeMap<String, String>), f64>;

fn scraped(text: &str) -> Lines {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let read = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = name.split_once('{').unwrap_or((name, "}"));
        let pairs = labels.trim_end_matches('}').split("\",").filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| pair.split_once("=\"").unwrap());
        let labels = pairs.map(|(key, value)| (key.to_owned(), value.trim_end_matches('"').to_owned()));
        ((name.to_owned(), labels.collect()), value.parse().unwrap())
    };
    lines.map(read).collect()
}

async fn scrape(ground: &Ground) -> Lines {
    let answer = ground.get("/metrics").await;
    scraped(std::str::from_utf8(&answer.bytes).unwrap())
}

/// As Prometheus would write them.
fn exported(request: &ExportMetricsServiceRequest) -> Lines {
    let scopes = request.resource_metrics.iter().flat_map(|resource| &resource.scope_metrics);
    scopes.flat_map(|scope| &scope.metrics).flat_map(lines).collect()
}

fn lines(metric: &Metric) -> Lines {
    let numbers = match metric.data.as_ref().unwrap() {
        Data::Gauge(gauge) => &gauge.data_points,
        Data::Sum(sum) => {
            assert!(sum.is_monotonic && sum.aggregation_temporality() == AggregationTemporality::Cumulative);
            &sum.data_points
        }
        Data::Histogram(times) => {
            assert_eq!(times.aggregation_temporality(), AggregationTemporality::Cumulative);
            let mut lines = Lines::new();
            for point in &times.data_points {
                let labels = attributes(&point.attributes);
                let mut so_far = 0;
                let bounds = point.explicit_bounds.iter().map(|bound| format!("{bound:?}"));
                for (bound, count) in bounds.chain(["+Inf".to_owned()]).zip(&point.bucket_counts) {
                    so_far += count;
                    let mut labels = labels.clone();
                    labels.insert("le".into(), bound);
                    lines.insert((format!("{}_bucket", metric.name), labels), so_far as f64);
                }
                assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
                lines.insert((format!("{}_count", metric.name), labels.clone()), point.count as f64);
                lines.insert((format!("{}_sum", metric.name), labels), point.sum.unwrap());
            }
            return lines;
        }
        other => panic!("{other:?}"),
    };
    let line = |point: &opentelemetry_proto::tonic::metrics::v1::NumberDataPoint| {
        let Some(number_data_point::Value::AsDouble(value)) = point.value else { panic!("{point:?}") };
        ((metric.name.clone(), attributes(&point.attributes)), value)
    };
    numbers.iter().map(line).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn figures_are_the_same_as_those_that_prometheus_reads() {
    let receiver = Receiver::begin().await;
    on_server_with(receiver.config(), |ground| async move {
        let id = ground.sandbox().await;
        ground.sh(&id, "exit 0").await;
        ground.sh(&id, "exit 3").await;
        ground.delete(&format!("/api/sandbox/{id}")).await;
        ground.sandbox().await;

        // What stays the same from one to the other has to be what is told between them. There are always two of
        // these, so that one of them has begun after the first look.
        scrape(&ground).await;
        let before = scrape(&ground).await;
        let already = receiver.figures().len();
        receiver.until("two more", |it| (it.figures().len() >= already + 2).then_some(())).await;
        let told = exported(&receiver.figures()[already + 1]);
        let after = scrape(&ground).await;

        let ours: Vec<_> = told.keys().collect();
        assert_eq!(ours, after.keys().collect::<Vec<_>>());
        let same: Vec<_> = before.iter().filter(|(line, value)| after.get(line) == Some(value)).collect();
        for (line, value) in &same {
            assert_eq!(told.get(line), Some(*value), "{line:?}");
        }
        let has = |name: &str| same.iter().any(|((known, _), value)| known == name && **value > 0.0);
        for name in [
            "pinfold_sandboxes_created_total",
            "pinfold_executions_total",
            "pinfold_create_seconds_bucket",
            "pinfold_sandboxes_active",
            "pinfold_memory_promised_bytes",
            "pinfold_http_request_seconds_count",
        ] {
            assert!(has(name), "{name} was not compared");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_figures_and_spans_are_told_at_the_end() {
    let receiver = Receiver::begin().await;
    let mut config = receiver.config();
    // Only once at the beginning, and at the end.
    config.telemetry.as_mut().unwrap().interval = std::time::Duration::from_secs(3_600);
    on_server_with(config, |ground| async move {
        let id = ground.sandbox().await;
        ground.delete(&format!("/api/sandbox/{id}")).await;

        ground.end().await;

        let told = exported(receiver.figures().last().unwrap());
        let destroyed = ("pinfold_sandboxes_destroyed_total".to_owned(), BTreeMap::new());
        assert_eq!(told.get(&destroyed), Some(&1.0), "{told:#?}");
        let names: Vec<_> = receiver.spans().into_iter().map(|span| span.name).collect();
        for name in ["create", "stop", "DELETE /api/sandbox/{id}"] {
            assert!(names.iter().any(|told| told == name), "{name} is not in {names:?}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_message_says_who_it_is_from_and_has_the_headers_and_only_what_is_wanted_is_sent() {
    let receiver = Receiver::begin().await;
    let collector = Collector::at(&receiver.address).unwrap().with_header("authorization", "Bearer hunter2");
    let ServerConfig { telemetry, .. } = receiver.config();
    let telemetry = TelemetryConfig { collector: collector.unwrap(), traces: false, ..telemetry.unwrap() };
    let config = ServerConfig { telemetry: Some(telemetry), ..ServerConfig::default() };
    on_server_with(config, |ground| async move {
        ground.post("/api/sandbox/reconcile", json!({})).await;
        receiver.until("some figures", |it| (it.figures().len() > 2).then_some(())).await;

        ground.end().await;

        let got = receiver.got();
        for message in &got {
            assert_eq!(message.path, "/v1/metrics");
            assert_eq!(message.headers["content-type"], "application/x-protobuf");
            assert_eq!(message.headers["authorization"], "Bearer hunter2");
            assert!(!String::from_utf8_lossy(&message.body).contains("hunter2"));
        }
        let figures = receiver.figures();
        let resource = figures[0].resource_metrics[0].resource.as_ref().unwrap();
        let about = attributes(&resource.attributes);
        assert_eq!(about["service.name"], "fold");
        assert!(about["service.instance.id"].starts_with("nod_"), "{about:?}");
    })
    .await;
}
