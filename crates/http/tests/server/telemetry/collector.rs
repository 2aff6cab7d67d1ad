//! An OTLP collector that keeps what it receives and can be made to misbehave.

use std::collections::BTreeMap;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use pinfold_http::ServerConfig;
use pinfold_notify::telemetry::{Collector, TelemetryConfig};
use pinfold_service::LoopsConfig;
use prost::Message;

use crate::http_receiver::HttpReceiver;
pub(super) use crate::http_receiver::{Behaviour, ReceivedMessage};

const TEST_TIMEOUT: Duration = Duration::from_secs(20);

pub(super) struct Receiver {
    http: HttpReceiver,
}

impl Receiver {
    pub(super) async fn start() -> Self {
        Self::that(&[], None).await
    }

    /// Shows these behaviours for the first messages, then `otherwise`.
    pub(super) async fn that(behaviours: &[Behaviour], otherwise: Option<Behaviour>) -> Self {
        Self { http: HttpReceiver::start(behaviours, otherwise).await }
    }

    /// Listens on a given address.
    pub(super) async fn at(address: &str) -> Self {
        Self { http: HttpReceiver::at(address).await }
    }

    pub(super) fn address(&self) -> &str {
        &self.http.address
    }

    /// A server configuration that exports everything here, at short intervals.
    pub(super) fn config(&self) -> ServerConfig {
        let telemetry = TelemetryConfig {
            collector: Collector::new(self.address()).unwrap(),
            traces: true,
            metrics: true,
            interval: Duration::from_millis(300),
            service_name: "fold".into(),
        };
        telemetry_config(telemetry)
    }

    pub(super) fn config_for_traces(&self) -> ServerConfig {
        let mut config = self.config();
        if let Some(telemetry) = &mut config.loops.telemetry {
            telemetry.metrics = false;
        }
        config
    }

    pub(super) fn received(&self) -> Vec<ReceivedMessage> {
        self.http.received()
    }

    pub(super) fn spans(&self) -> Vec<Span> {
        let received = self.received();
        let traces = received.iter().filter(|received| received.path == "/v1/traces");
        let requests =
            traces.map(|received| ExportTraceServiceRequest::decode(received.body.clone()).unwrap());
        let resources = requests.flat_map(|request| request.resource_spans);
        resources.flat_map(|resource| resource.scope_spans).flat_map(|scope| scope.spans).collect()
    }

    /// Every metrics export, oldest first.
    pub(super) fn metrics_requests(&self) -> Vec<ExportMetricsServiceRequest> {
        let received = self.received();
        let metrics = received.iter().filter(|received| received.path == "/v1/metrics");
        metrics.map(|received| ExportMetricsServiceRequest::decode(received.body.clone()).unwrap()).collect()
    }

    /// Waits until `met` returns a value.
    pub(super) async fn until<T>(&self, what: &str, met: impl Fn(&Self) -> Option<T>) -> T {
        let poll = async {
            loop {
                if let Some(found) = met(self) {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = tokio::time::timeout(TEST_TIMEOUT, poll).await;
        waited.unwrap_or_else(|_| panic!("never: {what}; there are {:#?}", self.spans()))
    }

    /// Waits for the span with this name and these attributes.
    pub(super) async fn span(&self, name: &str, with: &[(&str, &str)]) -> Span {
        let is_it = |span: &Span| {
            let attributes = attributes(&span.attributes);
            let has =
                |(key, value): &(&str, &str)| attributes.get(*key).is_some_and(|reported| reported == value);
            span.name == name && with.iter().all(has)
        };
        let what = format!("{name} with {with:?}");
        self.until(&what, |receiver| receiver.spans().into_iter().find(is_it)).await
    }
}

/// Attributes as text.
pub(super) fn attributes(of: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |attribute: &KeyValue| match attribute.value.clone().unwrap().value.unwrap() {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        Value::BoolValue(flag) => flag.to_string(),
        other => panic!("{other:?}"),
    };
    of.iter().map(|attribute| (attribute.key.clone(), text(attribute))).collect()
}

/// A server configuration with this telemetry.
pub(super) fn telemetry_config(telemetry: TelemetryConfig) -> ServerConfig {
    let loops = LoopsConfig { telemetry: Some(telemetry), ..LoopsConfig::default() };
    ServerConfig { loops, ..ServerConfig::default() }
}
