//! An OTLP collector that keeps what it receives and can be made to misbehave.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use pinfold_http::ServerConfig;
use pinfold_notify::telemetry::{Collector, TelemetryConfig};
use pinfold_service::LoopsConfig;
use prost::Message;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// One received message.
#[derive(Debug, Clone)]
pub(super) struct ReceivedMessage {
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Behaviour {
    Answers(u16),
    /// Accepts the message and never answers.
    Hangs,
}

#[derive(Clone, Default)]
struct SharedState {
    received: Arc<Mutex<Vec<ReceivedMessage>>>,
    behaviours: Arc<Mutex<VecDeque<Behaviour>>>,
    /// Behaviour after the listed ones.
    otherwise: Option<Behaviour>,
}

pub(super) struct Receiver {
    pub(super) address: String,
    state: SharedState,
    task: JoinHandle<()>,
}

impl Receiver {
    pub(super) async fn start() -> Self {
        Self::that(&[], None).await
    }

    /// Shows these behaviours for the first messages, then `otherwise`.
    pub(super) async fn that(behaviours: &[Behaviour], otherwise: Option<Behaviour>) -> Self {
        let state = SharedState { otherwise, ..SharedState::default() };
        state.behaviours.lock().unwrap().extend(behaviours);
        Self::with(state, TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    /// Listens on a given address.
    pub(super) async fn at(address: &str) -> Self {
        let listener = TcpListener::bind(address.trim_start_matches("http://")).await.unwrap();
        Self::with(SharedState::default(), listener)
    }

    fn with(state: SharedState, listener: TcpListener) -> Self {
        let router = Router::new().route("/v1/traces", post(take)).route("/v1/metrics", post(take));
        let address = format!("http://{}", listener.local_addr().unwrap());
        let router = router.with_state(state.clone());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, state, task }
    }

    /// A server configuration that exports everything here, at short intervals.
    pub(super) fn config(&self) -> ServerConfig {
        let telemetry = TelemetryConfig {
            collector: Collector::new(&self.address).unwrap(),
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
        self.state.received.lock().unwrap().clone()
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

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn take(State(state): State<SharedState>, uri: Uri, headers: HeaderMap, body: Bytes) -> StatusCode {
    state.received.lock().unwrap().push(ReceivedMessage { path: uri.path().to_owned(), headers, body });
    let behaviour = state.behaviours.lock().unwrap().pop_front();
    match behaviour.or(state.otherwise) {
        None => StatusCode::OK,
        Some(Behaviour::Answers(status)) => StatusCode::from_u16(status).unwrap(),
        Some(Behaviour::Hangs) => std::future::pending().await,
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
