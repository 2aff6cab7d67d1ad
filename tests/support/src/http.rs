//! One HTTP connection over TCP or a unix socket, for sequential requests.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;

#[derive(Debug)]
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: JoinHandle<()>,
    host: String,
    token: Option<String>,
}

impl Connection {
    pub async fn tcp(address: SocketAddr, token: Option<&str>) -> Result<Self> {
        let stream = TcpStream::connect(address).await.context("could not connect to the server")?;
        stream.set_nodelay(true)?;
        Self::over(stream, address.to_string(), token).await
    }

    pub async fn unix(socket: &Path) -> Result<Self> {
        let connected = UnixStream::connect(socket).await;
        let stream = connected.with_context(|| format!("could not connect to `{}`", socket.display()))?;
        Self::over(stream, "localhost".to_owned(), None).await
    }

    async fn over(
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        host: String,
        token: Option<&str>,
    ) -> Result<Self> {
        let (sender, driver) = http1::handshake(TokioIo::new(stream)).await?;
        // The task ends with the connection. An error shows at the next request.
        let driver = tokio::spawn(async move { drop(driver.await) });
        Ok(Self { sender, driver, host, token: token.map(str::to_owned) })
    }

    /// The body of a response, which must have this status.
    pub async fn request(
        &mut self,
        method: &str,
        path: &str,
        body: Option<Value>,
        status: u16,
    ) -> Result<Bytes> {
        self.request_with(method, path, &[], body, status).await
    }

    /// Like [`request`](Self::request), with further headers.
    pub async fn request_with(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Value>,
        status: u16,
    ) -> Result<Bytes> {
        let mut request = Request::builder().method(method).uri(path).header("host", &self.host);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let response = self.send(request.body(Full::from(body))?).await?;
        let got = response.status().as_u16();
        let bytes = response.into_body().collect().await?.to_bytes();
        ensure!(got == status, "{method} {path}: {got}: {}", String::from_utf8_lossy(&bytes));
        Ok(bytes)
    }

    /// The JSON document of a response.
    pub async fn request_json(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Value>,
        status: u16,
    ) -> Result<Value> {
        let bytes = self.request_with(method, path, headers, body, status).await?;
        serde_json::from_slice(&bytes).with_context(|| format!("{method} {path}: the answer is no JSON"))
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>> {
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }

    /// Waits until the connection is closed, so that it does not count as an open file.
    pub async fn close(self) {
        drop(self.sender);
        let _ = self.driver.await;
    }
}
