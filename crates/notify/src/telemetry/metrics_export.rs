//! Exports the metrics of `/metrics` to the collector: same names, labels and values.

use std::sync::Weak;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, Sum, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use pinfold_lifecycle::Timestamp;
use pinfold_metrics::{Family, HistogramValue, Kind, Point, Value};
use prost::Message;
use tokio::time::{MissedTickBehavior, interval};

use super::collector_client::{CollectorClient, ExportError};
use super::{Shutdown, otlp};

/// Where the exported metrics come from.
#[async_trait]
pub trait MetricsSource: Send + Sync + 'static {
    fn now(&self) -> Timestamp;

    /// All metrics. An error is a text for the log.
    async fn families(&self) -> Result<Vec<Family>, String>;
}

/// Exports metrics at every interval. A failed export is not repeated: metrics are cumulative, so the next one has it
/// all.
pub(super) async fn export_metrics(
    source: Weak<dyn MetricsSource>,
    every: Duration,
    mut client: CollectorClient,
    resource: Resource,
    mut shutdown: Shutdown,
) {
    let mut due = interval(every);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        // The last export has what was counted during the one before, so it is never left out.
        let is_last = tokio::select! {
            biased;
            () = shutdown.wait() => true,
            _ = due.tick() => false,
        };
        let Some(source) = source.upgrade() else { return };
        match source.families().await {
            Ok(families) => {
                let message = message(&families, source.now(), resource.clone());
                drop(source);
                if let Err(ExportError { why, .. }) = client.send(Bytes::from(message.encode_to_vec())).await
                {
                    client.record_dropped(1, &why);
                }
            }
            Err(why) => client.record_dropped(1, &why),
        }
        if is_last {
            return;
        }
    }
}

fn message(families: &[Family], at: Timestamp, resource: Resource) -> ExportMetricsServiceRequest {
    let at_ns = u64::try_from(at.0).unwrap_or(0).saturating_mul(1_000_000);
    let metrics = families.iter().map(|family| metric(family, at_ns)).collect();
    let scope_metrics = vec![ScopeMetrics { scope: Some(otlp::scope()), metrics, ..ScopeMetrics::default() }];
    let resource = Some(resource);
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics { resource, scope_metrics, ..ResourceMetrics::default() }],
    }
}

fn metric(family: &Family, at_ns: u64) -> Metric {
    // Counters start with the store, whose creation time is not known: the start time is left out.
    let temporality = AggregationTemporality::Cumulative.into();
    let data = match family.metric.kind {
        Kind::Counter => Data::Sum(Sum {
            data_points: numbers(family, at_ns),
            aggregation_temporality: temporality,
            is_monotonic: true,
        }),
        Kind::Gauge => Data::Gauge(Gauge { data_points: numbers(family, at_ns) }),
        Kind::Histogram => {
            let data_points =
                family.points.iter().filter_map(|point| histogram_point(family, point, at_ns)).collect();
            Data::Histogram(Histogram { data_points, aggregation_temporality: temporality })
        }
    };
    Metric {
        name: family.name(),
        description: family.help(),
        unit: unit(family.metric.name).into(),
        data: Some(data),
        ..Metric::default()
    }
}

fn numbers(family: &Family, at_ns: u64) -> Vec<NumberDataPoint> {
    let point = |point: &Point| match point.value {
        Value::Number(number) => Some(NumberDataPoint {
            attributes: attributes(family, point),
            time_unix_nano: at_ns,
            value: Some(number_data_point::Value::AsDouble(number)),
            ..NumberDataPoint::default()
        }),
        Value::Histogram(_) => None,
    };
    family.points.iter().filter_map(point).collect()
}

fn histogram_point(family: &Family, point: &Point, at_ns: u64) -> Option<HistogramDataPoint> {
    let Value::Histogram(times) = &point.value else { return None };
    Some(HistogramDataPoint {
        attributes: attributes(family, point),
        time_unix_nano: at_ns,
        count: times.count(),
        sum: Some(times.sum_seconds),
        bucket_counts: times.buckets.to_vec(),
        explicit_bounds: HistogramValue::bounds().collect(),
        ..HistogramDataPoint::default()
    })
}

fn attributes(family: &Family, point: &Point) -> Vec<KeyValue> {
    let labels = family.metric.labels.iter().zip(&point.labels);
    labels.map(|(label, value)| otlp::text(label, value)).collect()
}

/// The unit from the metric's name.
fn unit(name: &str) -> &'static str {
    match name.rsplit('_').next() {
        Some("seconds") => "s",
        Some("bytes") => "By",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::watch;

    use super::*;
    use crate::telemetry::Collector;
    use crate::telemetry::collector_client::Signal;

    /// A server that shuts down while its metrics are read for the first export.
    struct ShutsDown {
        shutdown: watch::Sender<bool>,
        reads: AtomicUsize,
    }

    #[async_trait]
    impl MetricsSource for ShutsDown {
        fn now(&self) -> Timestamp {
            Timestamp(0)
        }

        async fn families(&self) -> Result<Vec<Family>, String> {
            self.reads.fetch_add(1, Ordering::Relaxed);
            self.shutdown.send_replace(true);
            Err("nothing is sent in this test".to_owned())
        }
    }

    #[tokio::test]
    async fn shutdown_during_an_export_is_followed_by_a_last_export() {
        let shutdown = watch::Sender::new(false);
        let subscription = Shutdown(shutdown.subscribe());
        let server = Arc::new(ShutsDown { shutdown, reads: AtomicUsize::new(0) });
        let source: Arc<dyn MetricsSource> = server.clone();
        let client = CollectorClient::new(Signal::Metrics, &Collector::new("http://127.0.0.1:9").unwrap());
        let hour = Duration::from_secs(3_600);

        export_metrics(Arc::downgrade(&source), hour, client, Resource::default(), subscription).await;

        assert_eq!(server.reads.load(Ordering::Relaxed), 2);
    }
}
