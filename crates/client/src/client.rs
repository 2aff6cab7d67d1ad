//! The HTTP client: one server address and one token.

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
    ConsistencyReport, CreateSandbox, ErrorBody, ErrorCode, ErrorDetail, EventPage, ExecRequest, ExecResult,
    Execution, Health, LogPage, NewToken, OutputPage, Receipt, Resources, RunRequest, Sandbox,
    SandboxSummary, Stats, StdinAnswer, StdinRequest, StopPending, Token, TokenCreated,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::OnceCell;

use crate::error::BoxedError;
use crate::{ClientError, Events, proof, tls};

/// The body of a request.
pub(crate) type Content = UnsyncBoxBody<Bytes, BoxedError>;

pub struct Client {
    connections: Box<Connections<HttpsConnector<HttpConnector>, Content>>,
    /// `http://HOST:PORT` or `https://HOST:PORT`
    pub(crate) base: String,
    pub(crate) token: String,
    /// The port of a server that has to prove that it knows the token. None: another kind of server.
    pub(crate) unproven_port: Option<u16>,
    /// Set when it has.
    pub(crate) proven: OnceCell<()>,
}

fn tcp_connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.enforce_http(false);
    connector
}

/// The answer to a request that the server may accept (202) before it is complete.
#[derive(Debug, Clone, PartialEq)]
pub enum Completion<Done, Pending> {
    Done(Done),
    Pending(Pending),
}

pub(crate) const NO_BODY: Option<&()> = None;

impl Client {
    /// Sends nothing yet. The certificate of a TLS server is checked against this host's certificate authorities.
    pub fn new(base: &str, token: &str) -> Result<Self, ClientError> {
        Self::with_authorities(base, token, None)
    }

    /// Like [`Client::new`], with the certificate authorities of a PEM file instead of this host's.
    pub fn with_authorities(
        base: &str,
        token: &str,
        authorities: Option<&Path>,
    ) -> Result<Self, ClientError> {
        let base = base.trim_end_matches('/').to_owned();
        let uri = base.parse::<Uri>().map_err(|_| ClientError::BadUrl { url: base.clone() })?;
        let tls = match uri.scheme_str() {
            Some("https") => tls::trusting_authorities(authorities)?,
            Some("http") => tls::trusting_none()?,
            Some(_) | None => return Err(ClientError::BadUrl { url: base }),
        };
        let connector = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
        let connector = connector.enable_http1().wrap_connector(tcp_connector());
        let connections = Box::new(Connections::builder(TokioExecutor::new()).build(connector));
        let token = token.trim().to_owned();
        // Without a token there is nothing to protect.
        let unproven_port = proof::loopback_port(&uri).filter(|_| !token.is_empty());
        Ok(Self { connections, base, token, unproven_port, proven: OnceCell::new() })
    }

    /// Whether the server answers `/healthz`. Sends no token.
    pub async fn is_up(&self) -> bool {
        let answer = self.send(Method::GET, "/healthz", full_content(Vec::new()), JSON, JSON, None).await;
        answer.is_ok_and(|answer| answer.status().is_success())
    }

    pub async fn stats(&self) -> Result<Stats, ClientError> {
        read_json(self.request(Method::GET, "/api/sandbox/stats", NO_BODY).await?).await
    }

    /// Lists every sandbox that matches `query`, such as `status=all`.
    pub async fn list(&self, query: &str) -> Result<Vec<SandboxSummary>, ClientError> {
        self.read_all_pages("/api/sandbox/list", query).await
    }

    /// Creates a sandbox and waits until it is ready.
    pub async fn create(&self, request: &CreateSandbox) -> Result<Sandbox, ClientError> {
        read_json(self.request(Method::POST, "/api/sandbox", Some(request)).await?).await
    }

    /// Creates a sandbox and waits up to `wait_s` seconds until it is ready.
    pub async fn create_and_wait(
        &self,
        request: &CreateSandbox,
        wait_s: u64,
    ) -> Result<Sandbox, ClientError> {
        let path = format!("/api/sandbox?wait={wait_s}");
        read_json(self.request(Method::POST, &path, Some(request)).await?).await
    }

    /// Waits up to `wait_s` seconds until the sandbox is proven gone.
    pub async fn wait_gone(
        &self,
        id: &str,
        wait_s: u64,
    ) -> Result<Completion<Sandbox, Sandbox>, ClientError> {
        let path = format!("/api/sandbox/{id}/wait?state=gone&wait={wait_s}");
        read_completion(self.request(Method::GET, &path, NO_BODY).await?).await
    }

    pub async fn resources(&self, id: &str) -> Result<Resources, ClientError> {
        read_json(self.request(Method::GET, &format!("/api/sandbox/{id}/resources"), NO_BODY).await?).await
    }

    /// Reads one page of a sandbox's log after a cursor.
    pub async fn logs(&self, id: &str, after: &str) -> Result<LogPage, ClientError> {
        let after =
            if after.is_empty() { String::new() } else { format!("?after={}", encode_query_value(after)) };
        let path = format!("/api/sandbox/{id}/logs{after}");
        read_json(self.request(Method::GET, &path, NO_BODY).await?).await
    }

    /// Reads one page of events of one sandbox, or of all, after a sequence number.
    pub async fn events(&self, id: Option<&str>, after: u64) -> Result<EventPage, ClientError> {
        let scope = id.map(|id| format!("/sandbox/{id}")).unwrap_or_default();
        let path = format!("/api{scope}/events?after={after}");
        read_json(self.request(Method::GET, &path, NO_BODY).await?).await
    }

    pub async fn health(&self) -> Result<Health, ClientError> {
        read_json(self.request(Method::GET, "/api/sandbox/health", NO_BODY).await?).await
    }

    /// Compares records with instances, without repairing anything.
    pub async fn audit(&self) -> Result<ConsistencyReport, ClientError> {
        read_json(self.request(Method::POST, "/api/sandbox/audit", NO_BODY).await?).await
    }

    pub async fn executions(&self, id: &str) -> Result<Vec<Execution>, ClientError> {
        self.read_all_pages(&format!("/api/sandbox/{id}/executions"), "").await
    }

    pub async fn sandbox(&self, id: &str) -> Result<Sandbox, ClientError> {
        read_json(self.request(Method::GET, &format!("/api/sandbox/{id}"), NO_BODY).await?).await
    }

    pub async fn stop(
        &self,
        id: &str,
        force: bool,
        wait_s: u64,
    ) -> Result<Completion<Receipt, StopPending>, ClientError> {
        let path = format!("/api/sandbox/{id}?force={force}&wait={wait_s}");
        read_completion(self.request(Method::DELETE, &path, NO_BODY).await?).await
    }

    /// Runs a command and waits for its result.
    pub async fn exec(
        &self,
        id: &str,
        request: &ExecRequest,
    ) -> Result<Completion<ExecResult, Execution>, ClientError> {
        read_completion(self.request(Method::POST, &format!("/api/sandbox/{id}/exec"), Some(request)).await?)
            .await
    }

    /// Runs a command in a new sandbox that ends with it. Dropping the events stops the sandbox.
    pub async fn run_streamed(&self, request: &RunRequest) -> Result<Events, ClientError> {
        Events::from_response(
            self.request_accepting(Method::POST, "/api/sandbox/run", Some(request), EVENTS).await?,
        )
    }

    /// Runs a command and streams its output.
    pub async fn exec_streamed(&self, id: &str, request: &ExecRequest) -> Result<Events, ClientError> {
        let path = format!("/api/sandbox/{id}/exec");
        Events::from_response(self.request_accepting(Method::POST, &path, Some(request), EVENTS).await?)
    }

    /// Streams the output of an execution after a sequence number.
    pub async fn follow(&self, execution: &str, after: u64) -> Result<Events, ClientError> {
        let path = format!("/api/executions/{execution}/output?after={after}");
        Events::from_response(self.request_accepting(Method::GET, &path, NO_BODY, EVENTS).await?)
    }

    /// Reads the output that an execution has written so far, after a sequence number.
    pub async fn output(&self, execution: &str, after: u64) -> Result<OutputPage, ClientError> {
        let path = format!("/api/executions/{execution}/output?after={after}");
        read_json(self.request(Method::GET, &path, NO_BODY).await?).await
    }

    pub async fn execution(&self, id: &str) -> Result<Execution, ClientError> {
        read_json(self.request(Method::GET, &format!("/api/executions/{id}"), NO_BODY).await?).await
    }

    pub async fn cancel(&self, execution: &str) -> Result<Execution, ClientError> {
        read_json(self.request(Method::DELETE, &format!("/api/executions/{execution}"), NO_BODY).await?).await
    }

    /// Cancels an execution without waiting for its end.
    pub async fn begin_cancel(&self, execution: &str) -> Result<Execution, ClientError> {
        let path = format!("/api/executions/{execution}?wait=0");
        read_json(self.request(Method::DELETE, &path, NO_BODY).await?).await
    }

    pub async fn write_stdin(
        &self,
        execution: &str,
        request: &StdinRequest,
    ) -> Result<StdinAnswer, ClientError> {
        let path = format!("/api/executions/{execution}/stdin");
        read_json(self.request(Method::POST, &path, Some(request)).await?).await
    }

    pub async fn tokens(&self) -> Result<Vec<Token>, ClientError> {
        self.read_all_pages("/api/tokens", "").await
    }

    pub async fn create_token(&self, request: &NewToken) -> Result<TokenCreated, ClientError> {
        read_json(self.request(Method::POST, "/api/tokens", Some(request)).await?).await
    }

    pub async fn revoke_token(&self, id: &str) -> Result<Token, ClientError> {
        read_json(self.request(Method::DELETE, &format!("/api/tokens/{id}"), NO_BODY).await?).await
    }

    pub(crate) async fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<Response<Incoming>, ClientError> {
        self.request_accepting(method, path, body, JSON).await
    }

    /// Sends a JSON body. A status other than 2xx is returned as [`ClientError::Refused`].
    pub(crate) async fn request_accepting(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
        accept: &str,
    ) -> Result<Response<Incoming>, ClientError> {
        let written = body.map(serde_json::to_vec).transpose();
        let written = written.map_err(|error| ClientError::Request(error.into()))?.unwrap_or_default();
        self.request_with_content(method, path, full_content(written), JSON, accept).await
    }

    /// Sends a streamed body, which may be larger than memory.
    pub(crate) async fn request_with_content(
        &self,
        method: Method,
        path: &str,
        content: Content,
        kind: &str,
        accept: &str,
    ) -> Result<Response<Incoming>, ClientError> {
        self.ensure_proven().await?;
        let response = self.send(method, path, content, kind, accept, Some(&self.token)).await?;
        if response.status().is_success() { Ok(response) } else { Err(read_refusal(response).await) }
    }

    /// Sends a request, with the token if it is given, and returns whatever is answered.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        content: Content,
        kind: &str,
        accept: &str,
        token: Option<&str>,
    ) -> Result<Response<Incoming>, ClientError> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header(CONTENT_TYPE, kind)
            .header(ACCEPT, accept);
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(content).map_err(|error| ClientError::Request(error.into()))?;
        self.connections.request(request).await.map_err(|error| ClientError::Request(error.into()))
    }
}

/// Percent-encodes a value of a query string.
#[must_use]
pub fn encode_query_value(text: &str) -> String {
    percent_encode(text.as_bytes(), b"-._~")
}

/// Percent-encodes each byte that is neither alphanumeric nor in `plain`.
pub(crate) fn percent_encode(bytes: &[u8], plain: &[u8]) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || plain.contains(&byte);
    let spell = |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    bytes.iter().copied().map(spell).collect()
}

pub(crate) fn full_content(bytes: Vec<u8>) -> Content {
    Full::new(Bytes::from(bytes)).map_err(|never| match never {}).boxed_unsync()
}

pub(crate) const JSON: &str = "application/json";
pub(crate) const BYTES: &str = "application/octet-stream";
pub(crate) const EVENTS: &str = "text/event-stream";

/// Status 202 means that the server is still at work.
pub(crate) async fn read_completion<Done: DeserializeOwned, Pending: DeserializeOwned>(
    response: Response<Incoming>,
) -> Result<Completion<Done, Pending>, ClientError> {
    if response.status() == hyper::StatusCode::ACCEPTED {
        return read_json(response).await.map(Completion::Pending);
    }
    read_json(response).await.map(Completion::Done)
}

pub(crate) async fn read_json<T: DeserializeOwned>(response: Response<Incoming>) -> Result<T, ClientError> {
    let body = response.into_body().collect().await;
    let body = body.map_err(|error| ClientError::Interrupted(error.into()))?.to_bytes();
    serde_json::from_slice(&body).map_err(|error| ClientError::Decode(error.into()))
}

/// Reads an error answer. A proxy's error page has no JSON body; its status is reported instead.
async fn read_refusal(response: Response<Incoming>) -> ClientError {
    let status = response.status();
    let detail = match read_json::<ErrorBody>(response).await {
        Ok(body) => body.error,
        Err(_) => ErrorDetail {
            code: ErrorCode::Unavailable,
            message: format!("the server or a proxy answered {status}"),
            details: serde_json::Map::new(),
            retry_after_ms: None,
        },
    };
    ClientError::Refused { status: status.as_u16(), detail: Box::new(detail) }
}

#[cfg(test)]
mod tests {
    use super::encode_query_value;

    #[test]
    fn reserved_characters_in_a_query_value_are_percent_encoded() {
        assert_eq!(encode_query_value("team=red & blue/ü"), "team%3Dred%20%26%20blue%2F%C3%BC");
    }
}
