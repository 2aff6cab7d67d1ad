//! One server and one token.

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use hyper::{Method, Request, Response, Uri};
use hyper_util::client::legacy::Client as Connections;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use pinfold_api::{
    CreateSandbox, ErrorBody, ErrorCode, ErrorDetail, ExecRequest, ExecResult, Execution, OutputPage,
    Receipt, Sandbox, SandboxSummary, Stats, StopPending,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{ClientError, Events};

pub struct Client {
    connections: Connections<HttpConnector, Full<Bytes>>,
    /// `http://HOST:PORT`
    base: String,
    token: String,
}

/// What a request that may take its time came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Answered<Done, Pending> {
    Done(Done),
    Pending(Pending),
}

pub(crate) const NOTHING: Option<&()> = None;

impl Client {
    /// Nothing is asked yet.
    pub fn new(base: &str, token: &str) -> Result<Self, ClientError> {
        let base = base.trim_end_matches('/').to_owned();
        let is_http = base.parse::<Uri>().is_ok_and(|uri| uri.scheme_str() == Some("http"));
        if !is_http {
            return Err(ClientError::BadUrl { url: base });
        }
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let connections = Connections::builder(TokioExecutor::new()).build(connector);
        Ok(Self { connections, base, token: token.trim().to_owned() })
    }

    pub async fn stats(&self) -> Result<Stats, ClientError> {
        read(self.ask(Method::GET, "/api/sandbox/stats", NOTHING).await?).await
    }

    /// Every sandbox that `query` asks for, such as `status=all`, page by page.
    pub async fn list(&self, query: &str) -> Result<Vec<SandboxSummary>, ClientError> {
        let (mut all, mut cursor) = (Vec::new(), None);
        loop {
            let from = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
            let path = format!("/api/sandbox/list?{query}{from}");
            let response = self.ask(Method::GET, &path, NOTHING).await?;
            let next = response.headers().get(pinfold_api::NEXT_CURSOR);
            cursor = next.and_then(|next| next.to_str().ok()).map(str::to_owned);
            all.extend(read::<Vec<SandboxSummary>>(response).await?);
            if cursor.is_none() {
                return Ok(all);
            }
        }
    }

    /// Makes a sandbox and waits until it is ready.
    pub async fn create(&self, wish: &CreateSandbox) -> Result<Sandbox, ClientError> {
        read(self.ask(Method::POST, "/api/sandbox", Some(wish)).await?).await
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
        let response = self.ask(Method::DELETE, &path, NOTHING).await?;
        if response.status() == hyper::StatusCode::ACCEPTED {
            return read(response).await.map(Answered::Pending);
        }
        read(response).await.map(Answered::Done)
    }

    /// Runs a command and waits for its result.
    pub async fn exec(
        &self,
        id: &str,
        request: &ExecRequest,
    ) -> Result<Answered<ExecResult, Execution>, ClientError> {
        let response = self.ask(Method::POST, &format!("/api/sandbox/{id}/exec"), Some(request)).await?;
        if response.status() == hyper::StatusCode::ACCEPTED {
            return read(response).await.map(Answered::Pending);
        }
        read(response).await.map(Answered::Done)
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

    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<Response<Incoming>, ClientError> {
        self.send(method, path, body, "application/json").await
    }

    /// An answer that is a refusal comes back as the error that it is.
    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
        accept: &str,
    ) -> Result<Response<Incoming>, ClientError> {
        let written = body.map(serde_json::to_vec).transpose();
        let written = written.map_err(|error| ClientError::Ask(error.into()))?.unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header(AUTHORIZATION, format!("Bearer {}", self.token))
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, accept)
            .body(Full::new(Bytes::from(written)))
            .map_err(|error| ClientError::Ask(error.into()))?;
        let response =
            self.connections.request(request).await.map_err(|error| ClientError::Ask(error.into()))?;
        if response.status().is_success() { Ok(response) } else { Err(refusal(response).await) }
    }
}

const EVENTS: &str = "text/event-stream";

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
