//! One server for one test, on a port and a data directory of its own. It ends with its sandboxes when the test does,
//! however that ends.

mod rows;
mod strays;

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
use pinfold_images::Unpacker;
use pinfold_lifecycle::profile::{DEFAULT, Profile, Profiles};
use pinfold_lifecycle::{ExecutionLimits, Fact, Limits, SandboxId};
use pinfold_linux::NurseryProgram;
use pinfold_logs::Keep;
use pinfold_provider::Provider;
use pinfold_server::http::{Door, ServerConfig, serve};
use pinfold_server::{Host, HostConfig, ObjectsPlace, Rules, Service};
use pinfold_store::{Seq, Store};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// How long anything may take here before the test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_millis(50);
/// How long sandboxes have to end with the test.
const END_MS: u64 = 30_000;

pub(crate) struct Ground {
    pub(crate) address: SocketAddr,
    pub(crate) admin: String,
    pub(crate) data: tempfile::TempDir,
    service: Arc<Service>,
    connections: Connections<HttpConnector, Full<Bytes>>,
    running: Mutex<Option<Running>>,
    /// Bodies that a test has made behind the server's back.
    orphans: Mutex<BTreeSet<SandboxId>>,
}

struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<std::io::Result<()>>,
}

/// An answer, read to its end.
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

/// Runs a test against a server of its own.
pub(crate) async fn on_server<F, Fut>(test: F)
where
    F: FnOnce(Arc<Ground>) -> Fut,
    Fut: Future<Output = ()> + Send + 'static,
{
    on_server_with(ServerConfig::default(), test).await;
}

pub(crate) async fn on_server_with<F, Fut>(config: ServerConfig, test: F)
where
    F: FnOnce(Arc<Ground>) -> Fut,
    Fut: Future<Output = ()> + Send + 'static,
{
    on_ground(Ground::begin(tempfile::tempdir().unwrap(), config).await, test).await;
}

pub(crate) async fn on_server_under<F, Fut>(rules: Rules, test: F)
where
    F: FnOnce(Arc<Ground>) -> Fut,
    Fut: Future<Output = ()> + Send + 'static,
{
    let data = tempfile::tempdir().unwrap();
    on_ground(Ground::begin_under(data, ServerConfig::default(), rules).await, test).await;
}

pub(crate) async fn on_server_of<F, Fut>(engine: Config, rules: Rules, test: F)
where
    F: FnOnce(Arc<Ground>) -> Fut,
    Fut: Future<Output = ()> + Send + 'static,
{
    let data = tempfile::tempdir().unwrap();
    let service = service_with(data.path(), engine, rules).await;
    on_ground(Ground::on(service, data, ServerConfig::default()).await, test).await;
}

/// With whoever stays long looked at again so soon that a test can wait for it.
pub(crate) async fn on_server_that_looks_again<F, Fut>(config: ServerConfig, test: F)
where
    F: FnOnce(Arc<Ground>) -> Fut,
    Fut: Future<Output = ()> + Send + 'static,
{
    let data = tempfile::tempdir().unwrap();
    let service = service_on(data.path()).await;
    let door = |listener| Door::plain(listener).looking_again_after(SOON);
    on_ground(Ground::behind(door, service, data, config).await, test).await;
}

/// The same with an engine of another kind, and where the test wants it.
pub(crate) async fn on_engine<F, Fut>(data: tempfile::TempDir, engine: Config, test: F)
where
    F: FnOnce(Arc<Ground>) -> Fut,
    Fut: Future<Output = ()> + Send + 'static,
{
    on_ground(Ground::begin_with(data, ServerConfig::default(), engine).await, test).await;
}

pub(crate) async fn on_ground<F, Fut>(ground: Ground, test: F)
where
    F: FnOnce(Arc<Ground>) -> Fut,
    Fut: Future<Output = ()> + Send + 'static,
{
    let ground = Arc::new(ground);
    let tested = tokio::spawn(tokio::time::timeout(PATIENCE, test(ground.clone()))).await;
    ground.end().await;
    match tested {
        Ok(in_time) => in_time.expect("the test took too long"),
        Err(failed) => std::panic::resume_unwind(failed.into_panic()),
    }
}

/// The usual types of agents, and one that has little time.
pub(crate) fn rules() -> Rules {
    let mut profiles = Profiles::default();
    let hasty = Profile {
        limits: Limits { memory_mb: Some(64), ..DEFAULT.limits },
        execution: ExecutionLimits { timeout_ms: Some(1_500), inactivity_ms: None },
        is_agent: true,
    };
    profiles.put("HASTY", hasty);
    Rules { profiles, ..Rules::default() }
}

/// A service on a data directory, and the token of its admin.
pub(crate) async fn service_on(data: &std::path::Path) -> (Arc<Service>, String) {
    service_with(data, Config::default(), rules()).await
}

/// Under rules of its own.
pub(crate) async fn service_under(data: &std::path::Path, rules: Rules) -> (Arc<Service>, String) {
    service_with(data, Config::default(), rules).await
}

async fn service_with(data: &std::path::Path, engine: Config, rules: Rules) -> (Arc<Service>, String) {
    let nursery = NurseryProgram {
        program: env!("CARGO_BIN_EXE_pinfold-server-nursery").into(),
        arguments: Vec::new(),
    };
    // No test here imports an image.
    let unpacker = Unpacker { program: "/nonexistent".into(), arguments: Vec::new() };
    let host = HostConfig {
        data: data.to_owned(),
        nursery,
        unpacker,
        engine,
        objects: ObjectsPlace::default(),
        keep: Keep::default(),
        stale_after_ms: Keep::default().logs_ms,
    };
    let service = Arc::new(Service::with(Host::begin(host).await.unwrap(), rules));
    service.ensure_first_token().await.unwrap();
    let admin = std::fs::read_to_string(data.join("admin.token")).unwrap().trim().to_owned();
    (service, admin)
}

/// Process 1 of the body that has this name, and when it began.
pub(crate) fn keeper_of(data: &std::path::Path, body: &str) -> (i32, u64) {
    let noted = std::fs::read_to_string(data.join(format!("linux/control/v1.{body}/process"))).unwrap();
    let (pid, since) = noted.split_once(' ').unwrap();
    (pid.parse().unwrap(), since.trim().parse().unwrap())
}

/// Ends process 1 of the body that has this name.
pub(crate) fn kill_keeper(data: &std::path::Path, body: &str) {
    let (pid, since) = keeper_of(data, body);
    let handle = rustix::process::Pid::from_raw(pid).unwrap();
    let keeper = rustix::process::pidfd_open(handle, rustix::process::PidfdFlags::empty()).unwrap();
    assert_eq!(pinfold_keeper::process::began(pid).unwrap(), Some(since));
    rustix::process::pidfd_send_signal(&keeper, rustix::process::Signal::KILL).unwrap();
}

impl Ground {
    pub(crate) async fn begin(data: tempfile::TempDir, config: ServerConfig) -> Self {
        Self::on(service_on(data.path()).await, data, config).await
    }

    pub(crate) async fn begin_with(data: tempfile::TempDir, config: ServerConfig, engine: Config) -> Self {
        Self::on(service_with(data.path(), engine, rules()).await, data, config).await
    }

    pub(crate) async fn begin_under(data: tempfile::TempDir, config: ServerConfig, rules: Rules) -> Self {
        Self::on(service_under(data.path(), rules).await, data, config).await
    }

    async fn on(service: (Arc<Service>, String), data: tempfile::TempDir, config: ServerConfig) -> Self {
        Self::behind(Door::plain, service, data, config).await
    }

    async fn behind(
        door: impl FnOnce(TcpListener) -> Door,
        (service, admin): (Arc<Service>, String),
        data: tempfile::TempDir,
        config: ServerConfig,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let (served, door) = (service.clone(), door(listener));
        let serving = async move { serve(served, vec![door], &config, async { drop(stopped.await) }).await };
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
            self.service.shutdown(OnExit::Stop, END_MS).await.unwrap();
            self.prove_that_nothing_is_left().await;
        }
    }

    /// Also what was found meanwhile and cleared away again would have been left by a server that nobody follows.
    async fn prove_that_nothing_is_left(&self) {
        let host = self.service.host();
        let left = host.provider.discover().await.unwrap().found;
        for found in &left {
            host.provider.stop(found.body, 0).await;
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
            "{test}: {left:?} was there at the end, and no record spoke of {strays:?}: {history:#?}"
        );
    }

    /// Where the rows of the store disagree with each other.
    pub(crate) fn disagreements(&self) -> Vec<String> {
        self.service.host().store.disagreements().unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&format!("http://{}", self.address), &self.admin).unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.ask(Method::POST, path, Some(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.ask(Method::DELETE, path, None).await
    }

    pub(crate) async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> Answer {
        self.ask_as(Some(&self.admin), method, path, body).await
    }

    pub(crate) async fn ask_as(
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

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Every answer has an id, and every refusal is told in the one way.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Answer {
        let what = format!("{} {}", request.method(), request.uri());
        let (head, body) = self.connections.request(request).await.unwrap().into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let answer = Answer { status: head.status.as_u16(), headers: head.headers, bytes };
        assert!(answer.header(REQUEST_ID).is_some(), "{what} has no id");
        if answer.status >= 400 {
            let told = serde_json::from_slice::<ErrorBody>(&answer.bytes);
            assert!(told.is_ok(), "{what}: {} {:?}", answer.status, answer.bytes);
        }
        answer
    }

    /// The body of an answer that goes on.
    pub(crate) async fn stream(&self, path: &str) -> hyper::body::Incoming {
        let request = Request::get(self.url(path)).header("authorization", format!("Bearer {}", self.admin));
        let response = self.connections.request(request.body(Full::default()).unwrap()).await.unwrap();
        assert_eq!(response.status(), 200);
        response.into_body()
    }

    /// A small sandbox that is ready.
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

    /// Begins a script in the background.
    pub(crate) async fn sh_in_background(&self, sandbox: &str, body: Value) -> String {
        let mut body = body;
        body["background"] = true.into();
        let began = self.post(&format!("/api/sandbox/{sandbox}/exec"), body).await;
        assert_eq!(began.status, 202, "{:?}", began.bytes);
        began.json()["execution_id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn token(&self, role: &str) -> (String, String) {
        let made = self.post("/api/tokens", json!({ "name": role, "role": role })).await.json();
        (made["id"].as_str().unwrap().to_owned(), made["secret"].as_str().unwrap().to_owned())
    }

    /// Asks until it is so.
    pub(crate) async fn until<T>(&self, what: &str, path: &str, met: impl Fn(&Value) -> Option<T>) -> T {
        let look = async {
            loop {
                if let Some(found) = met(&self.get(path).await.json()) {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), look).await.unwrap_or_else(|_| panic!("never: {what}"))
    }
}

pub(crate) fn sh(script: &str) -> Value {
    json!({ "command": ["sh", "-c", script] })
}
