//! The collector receives the same metrics as `/metrics`.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, Metric, number_data_point};
use pinfold_notify::telemetry::{Collector, TelemetryConfig};
use serde_json::json;

use super::collector::{Receiver, attributes, telemetry_config};
use crate::fixture::{Fixture, with_server_config};

/// Samples by name and sorted labels.
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

async fn scrape(fixture: &Fixture) -> Lines {
    let answer = fixture.get("/metrics").await;
    scraped(std::str::from_utf8(&answer.bytes).unwrap())
}

/// The exported metrics in Prometheus form.
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
async fn exported_metrics_match_prometheus() {
    let receiver = Receiver::start().await;
    with_server_config(receiver.config(), |fixture| async move {
        let id = fixture.sandbox().await;
        fixture.sh(&id, "exit 0").await;
        fixture.sh(&id, "exit 3").await;
        fixture.delete(&format!("/api/sandbox/{id}")).await;
        fixture.sandbox().await;

        // Values that are equal in two scrapes must be in the export between them. Waiting for two exports makes sure
        // that one of them began after the first scrape.
        scrape(&fixture).await;
        let before = scrape(&fixture).await;
        let already = receiver.metrics_requests().len();
        receiver.until("two more", |it| (it.metrics_requests().len() >= already + 2).then_some(())).await;
        let reported = exported(&receiver.metrics_requests()[already + 1]);
        let after = scrape(&fixture).await;

        let ours: Vec<_> = reported.keys().collect();
        assert_eq!(ours, after.keys().collect::<Vec<_>>());
        // What this host has left also changes and changes back between two scrapes: others use the host too.
        let is_ours = |name: &str| !name.contains("_free");
        let same: Vec<_> = before
            .iter()
            .filter(|(line, value)| is_ours(&line.0) && after.get(line) == Some(value))
            .collect();
        for (line, value) in &same {
            assert_eq!(reported.get(line), Some(*value), "{line:?}");
        }
        let has = |name: &str| same.iter().any(|((known, _), value)| known == name && **value > 0.0);
        for name in [
            "pinfold_sandboxes_created_total",
            "pinfold_executions_total",
            "pinfold_create_seconds_bucket",
            "pinfold_sandboxes_active",
            "pinfold_memory_allocated_bytes",
            "pinfold_http_request_seconds_count",
        ] {
            assert!(has(name), "{name} was not compared");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn last_metrics_and_spans_are_flushed_at_shutdown() {
    let receiver = Receiver::start().await;
    let mut config = receiver.config();
    // Exports only at the start and at shutdown.
    config.loops.telemetry.as_mut().unwrap().interval = std::time::Duration::from_secs(3_600);
    with_server_config(config, |fixture| async move {
        let id = fixture.sandbox().await;
        fixture.delete(&format!("/api/sandbox/{id}")).await;

        fixture.end().await;

        let reported = exported(receiver.metrics_requests().last().unwrap());
        let destroyed = ("pinfold_sandboxes_destroyed_total".to_owned(), BTreeMap::new());
        assert_eq!(reported.get(&destroyed), Some(&1.0), "{reported:#?}");
        let names: Vec<_> = receiver.spans().into_iter().map(|span| span.name).collect();
        for name in ["create", "stop", "DELETE /api/sandbox/{id}"] {
            assert!(names.iter().any(|reported| reported == name), "{name} is not in {names:?}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exports_carry_service_name_and_headers_and_only_enabled_signals() {
    let receiver = Receiver::start().await;
    let collector =
        Collector::new(receiver.address()).unwrap().with_header("authorization", "Bearer hunter2");
    let telemetry = receiver.config().loops.telemetry.unwrap();
    let telemetry = TelemetryConfig { collector: collector.unwrap(), traces: false, ..telemetry };
    let config = telemetry_config(telemetry);
    with_server_config(config, |fixture| async move {
        fixture.post("/api/sandbox/reconcile", json!({})).await;
        receiver.until("metrics arrive", |it| (it.metrics_requests().len() > 2).then_some(())).await;

        fixture.end().await;

        let received = receiver.received();
        for message in &received {
            assert_eq!(message.path, "/v1/metrics");
            assert_eq!(message.headers["content-type"], "application/x-protobuf");
            assert_eq!(message.headers["authorization"], "Bearer hunter2");
            assert!(!String::from_utf8_lossy(&message.body).contains("hunter2"));
        }
        let metrics_requests = receiver.metrics_requests();
        let resource = metrics_requests[0].resource_metrics[0].resource.as_ref().unwrap();
        let about = attributes(&resource.attributes);
        assert_eq!(about["service.name"], "fold");
        assert!(about["service.instance.id"].starts_with("nod_"), "{about:?}");
    })
    .await;
}
