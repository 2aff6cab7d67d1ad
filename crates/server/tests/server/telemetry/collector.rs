//! A collector that keeps what it is sent, as the protocol says it, and can be told to behave badly.

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
use pinfold_server::http::ServerConfig;
use pinfold_server::{Collector, TelemetryConfig};
use prost::Message;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

const PATIENCE: Duration = Duration::from_secs(20);

/// One message as it came.
#[derive(Debug, Clone)]
pub(super) struct Got {
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Manner {
    Answers(u16),
    /// Takes the message, and never says a word.
    Hangs,
}

#[derive(Clone, Default)]
struct Memory {
    got: Arc<Mutex<Vec<Got>>>,
    manners: Arc<Mutex<VecDeque<Manner>>>,
    /// How it behaves when no more is said.
    otherwise: Option<Manner>,
}

pub(super) struct Receiver {
    pub(super) address: String,
    memory: Memory,
    task: JoinHandle<()>,
}

impl Receiver {
    pub(super) async fn begin() -> Self {
        Self::that(&[], None).await
    }

    /// Behaves so for the first messages, and then otherwise.
    pub(super) async fn that(manners: &[Manner], otherwise: Option<Manner>) -> Self {
        let memory = Memory { otherwise, ..Memory::default() };
        memory.manners.lock().unwrap().extend(manners);
        Self::with(memory, TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    /// Where there was none before.
    pub(super) async fn at(address: &str) -> Self {
        let listener = TcpListener::bind(address.trim_start_matches("http://")).await.unwrap();
        Self::with(Memory::default(), listener)
    }

    fn with(memory: Memory, listener: TcpListener) -> Self {
        let router = Router::new().route("/v1/traces", post(take)).route("/v1/metrics", post(take));
        let address = format!("http://{}", listener.local_addr().unwrap());
        let router = router.with_state(memory.clone());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, memory, task }
    }

    /// A server that sends everything here, and often.
    pub(super) fn config(&self) -> ServerConfig {
        let telemetry = TelemetryConfig {
            collector: Collector::at(&self.address).unwrap(),
            traces: true,
            metrics: true,
            interval: Duration::from_millis(300),
            service_name: "fold".into(),
        };
        ServerConfig { telemetry: Some(telemetry), ..ServerConfig::default() }
    }

    pub(super) fn config_for_traces(&self) -> ServerConfig {
        let config = self.config();
        let telemetry = config.telemetry.map(|telemetry| TelemetryConfig { metrics: false, ..telemetry });
        ServerConfig { telemetry, ..config }
    }

    pub(super) fn got(&self) -> Vec<Got> {
        self.memory.got.lock().unwrap().clone()
    }

    pub(super) fn spans(&self) -> Vec<Span> {
        let got = self.got();
        let traces = got.iter().filter(|got| got.path == "/v1/traces");
        let requests = traces.map(|got| ExportTraceServiceRequest::decode(got.body.clone()).unwrap());
        let resources = requests.flat_map(|request| request.resource_spans);
        resources.flat_map(|resource| resource.scope_spans).flat_map(|scope| scope.spans).collect()
    }

    /// Every message of figures, the oldest first.
    pub(super) fn figures(&self) -> Vec<ExportMetricsServiceRequest> {
        let got = self.got();
        let metrics = got.iter().filter(|got| got.path == "/v1/metrics");
        metrics.map(|got| ExportMetricsServiceRequest::decode(got.body.clone()).unwrap()).collect()
    }

    /// Waits until it has been sent what is looked for.
    pub(super) async fn until<T>(&self, what: &str, met: impl Fn(&Self) -> Option<T>) -> T {
        let look = async {
            loop {
                if let Some(found) = met(self) {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, look).await;
        waited.unwrap_or_else(|_| panic!("never: {what}; there are {:#?}", self.spans()))
    }

    /// The one span that has this name and these attributes.
    pub(super) async fn span(&self, name: &str, with: &[(&str, &str)]) -> Span {
        let is_it = |span: &Span| {
            let attributes = attributes(&span.attributes);
            let has = |(key, value): &(&str, &str)| attributes.get(*key).is_some_and(|told| told == value);
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

async fn take(State(memory): State<Memory>, uri: Uri, headers: HeaderMap, body: Bytes) -> StatusCode {
    memory.got.lock().unwrap().push(Got { path: uri.path().to_owned(), headers, body });
    let manner = memory.manners.lock().unwrap().pop_front();
    match manner.or(memory.otherwise) {
        None => StatusCode::OK,
        Some(Manner::Answers(status)) => StatusCode::from_u16(status).unwrap(),
        Some(Manner::Hangs) => std::future::pending().await,
    }
}

/// As text, whatever they are.
pub(super) fn attributes(of: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |attribute: &KeyValue| match attribute.value.clone().unwrap().value.unwrap() {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        Value::BoolValue(flag) => flag.to_string(),
        other => panic!("{other:?}"),
    };
    of.iter().map(|attribute| (attribute.key.clone(), text(attribute))).collect()
}
