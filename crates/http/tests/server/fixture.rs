//! A server for one test, with its own port and data directory. It shuts down, with its sandboxes, when the test ends or
//! fails, and then checks that nothing is left.

mod orphans;
mod provider;
mod store;

use std::collections::BTreeSet;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::header::HeaderMap;
use hyper::{Method, Request};
use hyper_util::client::legacy::Client as Connections;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use pinfold_api::{ErrorBody, ErrorCode, REQUEST_ID};
use pinfold_client::Client;
use pinfold_engine::{Config, OnExit};
use pinfold_host::TestHooks;
use pinfold_http::{Endpoint, ServerConfig, serve};
use pinfold_lifecycle::profile::{DEFAULT, Profile, Profiles};
use pinfold_lifecycle::{ExecutionLimits, Fact, Limits, SandboxId};
use pinfold_logs::RetentionPeriods;
use pinfold_service::{HostConfig, ObjectStoreConfig, Service, ServiceConfig};
use pinfold_store::Seq;
use pinfold_test_support::until_some;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) use provider::{keeper_of, kill_keeper};

/// Timeout of a whole test.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);
const RECHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Timeout for stopping the sandboxes at the end of the test.
const SHUTDOWN_TIMEOUT_MS: u64 = 30_000;

pub(crate) struct Fixture {
    pub(crate) address: SocketAddr,
    pub(crate) admin: String,
    pub(crate) data: tempfile::TempDir,
    pub(crate) service: Arc<Service>,
    connections: Connections<HttpConnector, Full<Bytes>>,
    running: Mutex<Option<Running>>,
    /// Instances that a test created without a record.
    orphans: Mutex<BTreeSet<SandboxId>>,
}

struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<std::io::Result<()>>,
}

/// A complete HTTP answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|error| panic!("{error}: {:?}", self.bytes))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn code(&self) -> ErrorCode {
        serde_json::from_slice::<ErrorBody>(&self.bytes).unwrap().error.code
    }
}

/// Runs a test against its own server.
pub(crate) async fn with_server<F, Fut>(test: F)
where
    F: FnOnce(Arc<Fixture>) -> Fut,
    Fut: Future<Output = ()> + Send + 'static,
{
    with_server_config(ServerConfig::default(), test).await;
}

pub(crate) async fn with_server_config<F, Fut>(config: ServerConfig, test: F)
where
    F: FnOnce(Arc<Fixture>) -> Fut,
    Fut: Future<Output = ()> + Send + 'static,
{
    with_fixture(Fixture::start(tempfile::tempdir().unwrap(), config).await, test).await;
}

pub(crate) async fn with_service_config<F, Fut>(rules: ServiceConfig, test: F)
where
    F: FnOnce(Arc<Fixture>) -> Fut,
    Fut: Future<Output = ()> + Send + 'static,
{
    let data = tempfile::tempdir().unwrap();
    with_fixture(Fixture::start_with_service_config(data, ServerConfig::default(), rules).await, test).await;
}

pub(crate) async fn with_engine_config<F, Fut>(engine: Config, rules: ServiceConfig, test: F)
where
    F: FnOnce(Arc<Fixture>) -> Fut,
    Fut: Future<Output = ()> + Send + 'static,
{
    let data = tempfile::tempdir().unwrap();
    let service = start_service_with(data.path(), engine, rules).await;
    with_fixture(Fixture::on(service, data, ServerConfig::default()).await, test).await;
}

/// Like [`with_server`], with short intervals between the authorisation checks of open connections.
pub(crate) async fn with_fast_rechecks<F, Fut>(config: ServerConfig, test: F)
where
    F: FnOnce(Arc<Fixture>) -> Fut,
    Fut: Future<Output = ()> + Send + 'static,
{
    let data = tempfile::tempdir().unwrap();
    let service = start_service(data.path()).await;
    let endpoint = |listener| Endpoint::plain(listener).with_recheck_interval(RECHECK_INTERVAL);
    with_fixture(Fixture::listen(endpoint, service, data, config).await, test).await;
}

/// Like [`with_server`], with another engine configuration and data directory.
pub(crate) async fn with_engine<F, Fut>(data: tempfile::TempDir, engine: Config, test: F)
where
    F: FnOnce(Arc<Fixture>) -> Fut,
    Fut: Future<Output = ()> + Send + 'static,
{
    with_fixture(Fixture::start_with_engine(data, ServerConfig::default(), engine).await, test).await;
}

pub(crate) async fn with_fixture<F, Fut>(fixture: Fixture, test: F)
where
    F: FnOnce(Arc<Fixture>) -> Fut,
    Fut: Future<Output = ()> + Send + 'static,
{
    let fixture = Arc::new(fixture);
    let tested = tokio::spawn(tokio::time::timeout(TEST_TIMEOUT, test(fixture.clone()))).await;
    fixture.end().await;
    match tested {
        Ok(in_time) => in_time.expect("the test timed out"),
        Err(failed) => std::panic::resume_unwind(failed.into_panic()),
    }
}

/// The built-in agent types, and one with a short timeout.
pub(crate) fn rules() -> ServiceConfig {
    let mut profiles = Profiles::default();
    let hasty = Profile {
        limits: Limits { memory_mb: Some(64), ..DEFAULT.limits },
        execution: ExecutionLimits { timeout_ms: Some(1_500), inactivity_ms: None },
        is_agent: true,
    };
    profiles.insert("HASTY", hasty);
    ServiceConfig { profiles, ..ServiceConfig::default() }
}

/// Starts a service on a data directory and returns it with its admin token.
pub(crate) async fn start_service(data: &std::path::Path) -> (Arc<Service>, String) {
    start_service_with(data, Config::default(), rules()).await
}

/// Like [`start_service`], with another service configuration.
pub(crate) async fn start_service_with_config(
    data: &std::path::Path,
    rules: ServiceConfig,
) -> (Arc<Service>, String) {
    start_service_with(data, Config::default(), rules).await
}

/// Like [`start_service`], with decorators between the engine and its surroundings.
pub(crate) async fn start_service_behind(data: &std::path::Path, hooks: TestHooks) -> (Arc<Service>, String) {
    start_service_as(data, Config::default(), rules(), hooks).await
}

async fn start_service_with(
    data: &std::path::Path,
    engine: Config,
    rules: ServiceConfig,
) -> (Arc<Service>, String) {
    start_service_as(data, engine, rules, TestHooks::default()).await
}

async fn start_service_as(
    data: &std::path::Path,
    engine: Config,
    rules: ServiceConfig,
    hooks: TestHooks,
) -> (Arc<Service>, String) {
    let host = HostConfig {
        data: data.to_owned(),
        engine,
        objects: ObjectStoreConfig::default(),
        keep: RetentionPeriods::default(),
        stale_after_ms: RetentionPeriods::default().logs_ms,
    };
    let host = provider::start_host(host, hooks).await;
    let service = Arc::new(Service::with(host, rules));
    service.ensure_first_token().await.unwrap();
    let admin = std::fs::read_to_string(data.join("admin.token")).unwrap().trim().to_owned();
    (service, admin)
}

impl Fixture {
    pub(crate) async fn start(data: tempfile::TempDir, config: ServerConfig) -> Self {
        Self::on(start_service(data.path()).await, data, config).await
    }

    pub(crate) async fn start_with_engine(
        data: tempfile::TempDir,
        config: ServerConfig,
        engine: Config,
    ) -> Self {
        Self::on(start_service_with(data.path(), engine, rules()).await, data, config).await
    }

    pub(crate) async fn start_with_service_config(
        data: tempfile::TempDir,
        config: ServerConfig,
        rules: ServiceConfig,
    ) -> Self {
        Self::on(start_service_with_config(data.path(), rules).await, data, config).await
    }

    async fn on(service: (Arc<Service>, String), data: tempfile::TempDir, config: ServerConfig) -> Self {
        Self::listen(Endpoint::plain, service, data, config).await
    }

    async fn listen(
        endpoint: impl FnOnce(TcpListener) -> Endpoint,
        (service, admin): (Arc<Service>, String),
        data: tempfile::TempDir,
        config: ServerConfig,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let (served, endpoint) = (service.clone(), endpoint(listener));
        let serving =
            async move { serve(served, vec![endpoint], &config, async { drop(stopped.await) }).await };
        let task = tokio::spawn(serving);
        let connections = Connections::builder(TokioExecutor::new()).build(HttpConnector::new());
        let running = Mutex::new(Some(Running { stop, task }));
        let orphans = Mutex::default();
        Self { address, admin, data, service, connections, running, orphans }
    }

    pub(crate) async fn end(&self) {
        let running = self.running.lock().unwrap().take();
        if let Some(Running { stop, task }) = running {
            drop(stop);
            task.await.unwrap().unwrap();
            self.service.shutdown(OnExit::Stop, SHUTDOWN_TIMEOUT_MS).await.unwrap();
            self.assert_nothing_left().await;
        }
    }

    /// Stops instances that are left and fails. Also fails for instances without a record that the server found and
    /// removed during the test, unless the test created them.
    async fn assert_nothing_left(&self) {
        let host = self.service.host();
        let left = host.provider.discover().await.unwrap().found;
        for found in &left {
            host.provider.stop(found.instance, 0).await;
        }
        let history = host.store.history(None, Seq::default(), usize::MAX).await.unwrap();
        let orphans = self.orphans.lock().unwrap().clone();
        let strays: Vec<_> = history
            .iter()
            .filter(|row| {
                matches!(row.record.fact, Fact::StrayFound { .. }) && !orphans.contains(&row.sandbox)
            })
            .collect();
        let current = std::thread::current();
        let test = current.name().unwrap_or("a test");
        assert!(
            left.is_empty() && strays.is_empty(),
            "{test}: {left:?} was left at the end, and {strays:?} had no record: {history:#?}"
        );
    }

    /// Contradictions between rows of the store.
    pub(crate) fn disagreements(&self) -> Vec<String> {
        self.service.host().store.inconsistencies().unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&format!("http://{}", self.address), &self.admin).unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.request(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.request(Method::POST, path, Some(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.request(Method::DELETE, path, None).await
    }

    pub(crate) async fn request(&self, method: Method, path: &str, body: Option<Value>) -> Answer {
        self.request_as(Some(&self.admin), method, path, body).await
    }

    pub(crate) async fn request_as(
        &self,
        token: Option<&str>,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(self.url(path));
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        self.send(request.body(Full::new(Bytes::from(body))).unwrap()).await
    }

    /// Sends a request on a connection that closes with the answer, so that the next request can connect.
    pub(crate) async fn send_once(&self, method: Method, path: &str, token: &str, body: &Value) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(self.url(path))
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/json")
            .header("connection", "close");
        self.send(request.body(body.to_string().into()).unwrap()).await
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Checks that every answer has a request id and every error an error document.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Answer {
        let what = format!("{} {}", request.method(), request.uri());
        let (head, body) = self.connections.request(request).await.unwrap().into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let answer = Answer { status: head.status.as_u16(), headers: head.headers, bytes };
        assert!(answer.header(REQUEST_ID).is_some(), "{what} has no id");
        if answer.status >= 400 {
            let parsed = serde_json::from_slice::<ErrorBody>(&answer.bytes);
            assert!(parsed.is_ok(), "{what}: {} {:?}", answer.status, answer.bytes);
        }
        answer
    }

    /// The body of a streaming answer.
    pub(crate) async fn stream(&self, path: &str) -> hyper::body::Incoming {
        let request = Request::get(self.url(path)).header("authorization", format!("Bearer {}", self.admin));
        let response = self.connections.request(request.body(Full::default()).unwrap()).await.unwrap();
        assert_eq!(response.status(), 200);
        response.into_body()
    }

    /// Creates a small sandbox that is ready.
    pub(crate) async fn sandbox(&self) -> String {
        let made = self.post("/api/sandbox", json!({ "limits": { "memory_mb": 64 } })).await;
        assert_eq!(made.status, 201, "{:?}", made.bytes);
        made.json()["id"].as_str().unwrap().to_owned()
    }

    /// Runs a script to its end.
    pub(crate) async fn sh(&self, sandbox: &str, script: &str) -> Value {
        let ran = self.post(&format!("/api/sandbox/{sandbox}/exec"), sh(script)).await;
        assert_eq!(ran.status, 200, "{:?}", ran.bytes);
        ran.json()
    }

    /// Starts a script in the background.
    pub(crate) async fn sh_in_background(&self, sandbox: &str, body: Value) -> String {
        let mut body = body;
        body["background"] = true.into();
        let began = self.post(&format!("/api/sandbox/{sandbox}/exec"), body).await;
        assert_eq!(began.status, 202, "{:?}", began.bytes);
        began.json()["execution_id"].as_str().unwrap().to_owned()
    }

    /// Runs a command whose instance dies: an execution that the platform failed.
    pub(crate) async fn lose_execution(&self) {
        let id = self.sandbox().await;
        let execution = self.sh_in_background(&id, sh("echo begun; sleep 1000")).await;
        let path = format!("/api/executions/{execution}");
        self.until("the command runs", &path, |it| (!it["started_at"].is_null()).then_some(())).await;
        kill_keeper(self.data.path(), &id);
        self.until("the execution is lost", &path, |it| (!it["ended_at"].is_null()).then_some(())).await;
    }

    pub(crate) async fn token(&self, role: &str) -> (String, String) {
        let made = self.post("/api/tokens", json!({ "name": role, "role": role })).await.json();
        (made["id"].as_str().unwrap().to_owned(), made["secret"].as_str().unwrap().to_owned())
    }

    /// Polls `path` until `met` returns a value.
    pub(crate) async fn until<T>(&self, what: &str, path: &str, met: impl Fn(&Value) -> Option<T>) -> T {
        until_some(what, || async { met(&self.get(path).await.json()) }).await
    }
}

pub(crate) fn sh(script: &str) -> Value {
    json!({ "command": ["sh", "-c", script] })
}
