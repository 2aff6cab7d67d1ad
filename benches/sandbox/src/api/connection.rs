//! One HTTP connection over TCP or a unix socket, for sequential requests.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

pub(crate) struct Connection {
    connection: SendRequest<Full<Bytes>>,
    host: String,
    token: Option<String>,
}

impl Connection {
    pub(crate) async fn tcp(address: SocketAddr, token: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await.context("could not connect to the server")?;
        stream.set_nodelay(true)?;
        Self::over(stream, address.to_string(), Some(token.to_owned())).await
    }

    pub(crate) async fn unix(socket: &Path) -> Result<Self> {
        let stream = UnixStream::connect(socket).await.context("could not connect to docker")?;
        Self::over(stream, "docker".into(), None).await
    }

    async fn over(
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        host: String,
        token: Option<String>,
    ) -> Result<Self> {
        let (connection, driver) = http1::handshake(TokioIo::new(stream)).await?;
        // The task ends with the connection. An error shows at the next request.
        tokio::spawn(async move { drop(driver.await) });
        Ok(Self { connection, host, token })
    }

    /// The body of a response, which must have this status.
    pub(crate) async fn request(
        &mut self,
        method: &str,
        path: &str,
        body: Option<Value>,
        status: u16,
    ) -> Result<Bytes> {
        let mut request = Request::builder().method(method).uri(path).header("host", &self.host);
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        self.connection.ready().await?;
        let answer = self.connection.send_request(request.body(Full::from(body))?).await?;
        let got = answer.status().as_u16();
        let read = answer.into_body().collect().await?.to_bytes();
        ensure!(got == status, "{method} {path}: {got}: {}", String::from_utf8_lossy(&read));
        Ok(read)
    }

    /// A field of a JSON response.
    pub(crate) async fn request_field(
        &mut self,
        field: &str,
        method: &str,
        path: &str,
        body: Value,
        status: u16,
    ) -> Result<String> {
        let answer = self.request(method, path, Some(body), status).await?;
        let document: Value = serde_json::from_slice(&answer)?;
        Ok(document[field].as_str().with_context(|| format!("no `{field}` in {document}"))?.to_owned())
    }

    /// Creates a Pinfold sandbox.
    pub(crate) async fn create(&mut self) -> Result<String> {
        self.request_field("id", "POST", "/api/sandbox", json!({}), 201).await
    }

    pub(crate) async fn delete(&mut self, id: &str) -> Result<Bytes> {
        self.request("DELETE", &format!("/api/sandbox/{id}?force=true&wait=60"), None, 200).await
    }
}
