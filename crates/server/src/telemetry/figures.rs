//! The figures of `/metrics` for the collector: the same names, labels and numbers, taken at the same source.

use std::sync::Weak;
use std::time::Duration;

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
use pinfold_metrics::{Family, Kind, Point, Times, Value};
use prost::Message;
use tokio::time::{MissedTickBehavior, interval};

use super::delivery::{Delivery, NotTaken};
use super::{Ending, told};
use crate::Service;

/// What is not taken is not sent again: the next message has it all.
pub(super) async fn carry_figures(
    service: Weak<Service>,
    every: Duration,
    mut delivery: Delivery,
    resource: Resource,
    mut ending: Ending,
) {
    let mut due = interval(every);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !ending.has_come() {
        tokio::select! {
            biased;
            () = ending.come() => {}
            _ = due.tick() => {}
        }
        let Some(service) = service.upgrade() else { return };
        let families = match service.families().await {
            Ok(families) => families,
            Err(failure) => {
                delivery.lost(1, &failure.hidden.unwrap_or(failure.detail.message));
                continue;
            }
        };
        let message = message(&families, service.now(), resource.clone());
        drop(service);
        if let Err(NotTaken { why, .. }) = delivery.deliver(Bytes::from(message.encode_to_vec())).await {
            delivery.lost(1, &why);
        }
    }
}

fn message(families: &[Family], at: Timestamp, resource: Resource) -> ExportMetricsServiceRequest {
    let at_ns = u64::try_from(at.0).unwrap_or(0).saturating_mul(1_000_000);
    let metrics = families.iter().map(|family| metric(family, at_ns)).collect();
    let scope_metrics = vec![ScopeMetrics { scope: Some(told::scope()), metrics, ..ScopeMetrics::default() }];
    let resource = Some(resource);
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics { resource, scope_metrics, ..ResourceMetrics::default() }],
    }
}

fn metric(family: &Family, at_ns: u64) -> Metric {
    // Everything is counted from the beginning of the store, which nobody knows: the moment is left out.
    let temporality = AggregationTemporality::Cumulative.into();
    let data = match family.metric.kind {
        Kind::Counter => Data::Sum(Sum {
            data_points: numbers(family, at_ns),
            aggregation_temporality: temporality,
            is_monotonic: true,
        }),
        Kind::Gauge => Data::Gauge(Gauge { data_points: numbers(family, at_ns) }),
        Kind::Histogram => {
            let data_points = family.points.iter().filter_map(|point| timed(family, point, at_ns)).collect();
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
        Value::Times(_) => None,
    };
    family.points.iter().filter_map(point).collect()
}

fn timed(family: &Family, point: &Point, at_ns: u64) -> Option<HistogramDataPoint> {
    let Value::Times(times) = &point.value else { return None };
    Some(HistogramDataPoint {
        attributes: attributes(family, point),
        time_unix_nano: at_ns,
        count: times.count(),
        sum: Some(times.sum_seconds),
        bucket_counts: times.buckets.to_vec(),
        explicit_bounds: Times::bounds().collect(),
        ..HistogramDataPoint::default()
    })
}

fn attributes(family: &Family, point: &Point) -> Vec<KeyValue> {
    let labels = family.metric.labels.iter().zip(&point.labels);
    labels.map(|(label, value)| told::text(label, value)).collect()
}

/// As the name says it.
fn unit(name: &str) -> &'static str {
    match name.rsplit('_').next() {
        Some("seconds") => "s",
        Some("bytes") => "By",
        _ => "",
    }
}
