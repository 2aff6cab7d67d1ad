//! One server and one token.

use std::path::Path;

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use hyper::{Method, Request, Response, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client as Connections;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use pinfold_api::{
    Comparison, CreateSandbox, ErrorBody, ErrorCode, ErrorDetail, EventPage, ExecRequest, ExecResult,
    Execution, Health, LogPage, NewToken, OutputPage, Receipt, Resources, RunRequest, Sandbox,
    SandboxSummary, Stats, StdinAnswer, StdinRequest, StopPending, Token, TokenCreated,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Source;
use crate::{ClientError, Events, trust};

/// What goes along with a request.
pub(crate) type Content = UnsyncBoxBody<Bytes, Source>;

pub struct Client {
    connections: Box<Connections<HttpsConnector<HttpConnector>, Content>>,
    /// `http://HOST:PORT` or `https://HOST:PORT`
    base: String,
    token: String,
}

fn plain() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.enforce_http(false);
    connector
}

/// What a request that may take its time came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Answered<Done, Pending> {
    Done(Done),
    Pending(Pending),
}

pub(crate) const NOTHING: Option<&()> = None;

impl Client {
    /// Nothing is asked yet. A server with TLS is believed if this host's authorities vouch for it.
    pub fn new(base: &str, token: &str) -> Result<Self, ClientError> {
        Self::trusting(base, token, None)
    }

    /// The same, with authorities in a file in the place of this host's.
    pub fn trusting(base: &str, token: &str, authorities: Option<&Path>) -> Result<Self, ClientError> {
        let base = base.trim_end_matches('/').to_owned();
        let scheme = base.parse::<Uri>().ok().and_then(|uri| uri.scheme_str().map(str::to_owned));
        let tls = match scheme.as_deref() {
            Some("https") => trust::these(authorities)?,
            Some("http") => trust::nobody()?,
            Some(_) | None => return Err(ClientError::BadUrl { url: base }),
        };
        let connector = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
        let connector = connector.enable_http1().wrap_connector(plain());
        let connections = Box::new(Connections::builder(TokioExecutor::new()).build(connector));
        Ok(Self { connections, base, token: token.trim().to_owned() })
    }

    /// Whether a server answers there at all. Needs no token.
    pub async fn is_up(&self) -> bool {
        self.ask(Method::GET, "/healthz", NOTHING).await.is_ok()
    }

    pub async fn stats(&self) -> Result<Stats, ClientError> {
        read(self.ask(Method::GET, "/api/sandbox/stats", NOTHING).await?).await
    }

    /// Every sandbox that `query` asks for, such as `status=all`.
    pub async fn list(&self, query: &str) -> Result<Vec<SandboxSummary>, ClientError> {
        self.all("/api/sandbox/list", query).await
    }

    /// Makes a sandbox and waits until it is ready.
    pub async fn create(&self, wish: &CreateSandbox) -> Result<Sandbox, ClientError> {
        read(self.ask(Method::POST, "/api/sandbox", Some(wish)).await?).await
    }

    /// Makes a sandbox and waits so long until it is ready.
    pub async fn create_within(&self, wish: &CreateSandbox, wait_s: u64) -> Result<Sandbox, ClientError> {
        let path = format!("/api/sandbox?wait={wait_s}");
        read(self.ask(Method::POST, &path, Some(wish)).await?).await
    }

    /// Waits so long until it is proven gone.
    pub async fn wait_gone(&self, id: &str, wait_s: u64) -> Result<Answered<Sandbox, Sandbox>, ClientError> {
        let path = format!("/api/sandbox/{id}/wait?state=gone&wait={wait_s}");
        answered(self.ask(Method::GET, &path, NOTHING).await?).await
    }

    pub async fn resources(&self, id: &str) -> Result<Resources, ClientError> {
        read(self.ask(Method::GET, &format!("/api/sandbox/{id}/resources"), NOTHING).await?).await
    }

    /// What a sandbox and the control plane wrote after a place, as much as fits on a page.
    pub async fn logs(&self, id: &str, after: &str) -> Result<LogPage, ClientError> {
        let after = if after.is_empty() { String::new() } else { format!("?after={}", encoded(after)) };
        let path = format!("/api/sandbox/{id}/logs{after}");
        read(self.ask(Method::GET, &path, NOTHING).await?).await
    }

    /// What happened to one sandbox or to all after a number, as much as fits on a page.
    pub async fn events(&self, id: Option<&str>, after: u64) -> Result<EventPage, ClientError> {
        let of = id.map(|id| format!("/sandbox/{id}")).unwrap_or_default();
        let path = format!("/api{of}/events?after={after}");
        read(self.ask(Method::GET, &path, NOTHING).await?).await
    }

    pub async fn health(&self) -> Result<Health, ClientError> {
        read(self.ask(Method::GET, "/api/sandbox/health", NOTHING).await?).await
    }

    /// Compares what is recorded with what is there, and repairs nothing.
    pub async fn audit(&self) -> Result<Comparison, ClientError> {
        read(self.ask(Method::POST, "/api/sandbox/audit", NOTHING).await?).await
    }

    pub async fn executions(&self, id: &str) -> Result<Vec<Execution>, ClientError> {
        self.all(&format!("/api/sandbox/{id}/executions"), "").await
    }

    pub async fn sandbox(&self, id: &str) -> Result<Sandbox, ClientError> {
        read(self.ask(Method::GET, &format!("/api/sandbox/{id}"), NOTHING).await?).await
    }

    pub async fn stop(
        &self,
        id: &str,
        force: bool,
        wait_s: u64,
    ) -> Result<Answered<Receipt, StopPending>, ClientError> {
        let path = format!("/api/sandbox/{id}?force={force}&wait={wait_s}");
        answered(self.ask(Method::DELETE, &path, NOTHING).await?).await
    }

    /// Runs a command and waits for its result.
    pub async fn exec(
        &self,
        id: &str,
        request: &ExecRequest,
    ) -> Result<Answered<ExecResult, Execution>, ClientError> {
        answered(self.ask(Method::POST, &format!("/api/sandbox/{id}/exec"), Some(request)).await?).await
    }

    /// Runs a command in a sandbox of its own, which ends with it; and sooner, when the events are let go of.
    pub async fn run_streamed(&self, request: &RunRequest) -> Result<Events, ClientError> {
        Events::begin(self.send(Method::POST, "/api/sandbox/run", Some(request), EVENTS).await?)
    }

    /// Runs a command and follows what it writes.
    pub async fn exec_streamed(&self, id: &str, request: &ExecRequest) -> Result<Events, ClientError> {
        let path = format!("/api/sandbox/{id}/exec");
        Events::begin(self.send(Method::POST, &path, Some(request), EVENTS).await?)
    }

    /// Follows what a command writes, after a number.
    pub async fn follow(&self, execution: &str, after: u64) -> Result<Events, ClientError> {
        let path = format!("/api/executions/{execution}/output?after={after}");
        Events::begin(self.send(Method::GET, &path, NOTHING, EVENTS).await?)
    }

    /// What a command has written so far, after a number.
    pub async fn output(&self, execution: &str, after: u64) -> Result<OutputPage, ClientError> {
        let path = format!("/api/executions/{execution}/output?after={after}");
        read(self.ask(Method::GET, &path, NOTHING).await?).await
    }

    pub async fn execution(&self, id: &str) -> Result<Execution, ClientError> {
        read(self.ask(Method::GET, &format!("/api/executions/{id}"), NOTHING).await?).await
    }

    pub async fn cancel(&self, execution: &str) -> Result<Execution, ClientError> {
        read(self.ask(Method::DELETE, &format!("/api/executions/{execution}"), NOTHING).await?).await
    }

    /// Ends it without waiting for its end.
    pub async fn begin_cancel(&self, execution: &str) -> Result<Execution, ClientError> {
        let path = format!("/api/executions/{execution}?wait=0");
        read(self.ask(Method::DELETE, &path, NOTHING).await?).await
    }

    pub async fn feed(&self, execution: &str, request: &StdinRequest) -> Result<StdinAnswer, ClientError> {
        let path = format!("/api/executions/{execution}/stdin");
        read(self.ask(Method::POST, &path, Some(request)).await?).await
    }

    pub async fn tokens(&self) -> Result<Vec<Token>, ClientError> {
        self.all("/api/tokens", "").await
    }

    pub async fn create_token(&self, asked: &NewToken) -> Result<TokenCreated, ClientError> {
        read(self.ask(Method::POST, "/api/tokens", Some(asked)).await?).await
    }

    pub async fn revoke_token(&self, id: &str) -> Result<Token, ClientError> {
        read(self.ask(Method::DELETE, &format!("/api/tokens/{id}"), NOTHING).await?).await
    }

    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<Response<Incoming>, ClientError> {
        self.send(method, path, body, JSON).await
    }

    /// An answer that is a refusal comes back as the error that it is.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
        accept: &str,
    ) -> Result<Response<Incoming>, ClientError> {
        let written = body.map(serde_json::to_vec).transpose();
        let written = written.map_err(|error| ClientError::Ask(error.into()))?.unwrap_or_default();
        self.carry(method, path, whole(written), JSON, accept).await
    }

    /// With content that may be larger than memory.
    pub(crate) async fn carry(
        &self,
        method: Method,
        path: &str,
        content: Content,
        kind: &str,
        accept: &str,
    ) -> Result<Response<Incoming>, ClientError> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header(AUTHORIZATION, format!("Bearer {}", self.token))
            .header(CONTENT_TYPE, kind)
            .header(ACCEPT, accept)
            .body(content)
            .map_err(|error| ClientError::Ask(error.into()))?;
        let response =
            self.connections.request(request).await.map_err(|error| ClientError::Ask(error.into()))?;
        if response.status().is_success() { Ok(response) } else { Err(refusal(response).await) }
    }
}

/// As a value in a query.
#[must_use]
pub fn encoded(text: &str) -> String {
    spelled(text.as_bytes(), b"-._~")
}

/// Each byte that is neither a letter, a digit nor plain is spelled out.
pub(crate) fn spelled(bytes: &[u8], plain: &[u8]) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || plain.contains(&byte);
    let spell = |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    bytes.iter().copied().map(spell).collect()
}

pub(crate) fn whole(bytes: Vec<u8>) -> Content {
    Full::new(Bytes::from(bytes)).map_err(|never| match never {}).boxed_unsync()
}

pub(crate) const JSON: &str = "application/json";
pub(crate) const BYTES: &str = "application/octet-stream";
pub(crate) const EVENTS: &str = "text/event-stream";

/// Accepted is what goes on by itself.
pub(crate) async fn answered<Done: DeserializeOwned, Pending: DeserializeOwned>(
    response: Response<Incoming>,
) -> Result<Answered<Done, Pending>, ClientError> {
    if response.status() == hyper::StatusCode::ACCEPTED {
        return read(response).await.map(Answered::Pending);
    }
    read(response).await.map(Answered::Done)
}

pub(crate) async fn read<T: DeserializeOwned>(response: Response<Incoming>) -> Result<T, ClientError> {
    let body = response.into_body().collect().await;
    let body = body.map_err(|error| ClientError::BrokeOff(error.into()))?.to_bytes();
    serde_json::from_slice(&body).map_err(|error| ClientError::Misunderstood(error.into()))
}

/// Also of whoever sits in between and knows nothing of our errors.
async fn refusal(response: Response<Incoming>) -> ClientError {
    let status = response.status();
    let detail = match read::<ErrorBody>(response).await {
        Ok(body) => body.error,
        Err(_) => ErrorDetail {
            code: ErrorCode::Unavailable,
            message: format!("the answer was {status}"),
            details: serde_json::Map::new(),
            retry_after_ms: None,
        },
    };
    ClientError::Refused { status: status.as_u16(), detail: Box::new(detail) }
}

#[cfg(test)]
mod tests {
    use super::encoded;

    #[test]
    fn what_would_end_a_value_is_spelled_out() {
        assert_eq!(encoded("team=red & blue/ü"), "team%3Dred%20%26%20blue%2F%C3%BC");
    }
}
