//! One connection to a server, over TCP or a unix socket, and requests on it one after the other.

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

pub(crate) struct Caller {
    connection: SendRequest<Full<Bytes>>,
    host: String,
    token: Option<String>,
}

impl Caller {
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
        // It ends with the connection, and what broke is seen by whoever asks next.
        tokio::spawn(async move { drop(driver.await) });
        Ok(Self { connection, host, token })
    }

    /// The whole body of an answer with this status.
    pub(crate) async fn ask(
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

    /// A field of the document that is answered.
    pub(crate) async fn ask_for(
        &mut self,
        field: &str,
        method: &str,
        path: &str,
        body: Value,
        status: u16,
    ) -> Result<String> {
        let answer = self.ask(method, path, Some(body), status).await?;
        let document: Value = serde_json::from_slice(&answer)?;
        Ok(document[field].as_str().with_context(|| format!("no `{field}` in {document}"))?.to_owned())
    }

    /// A sandbox of ours.
    pub(crate) async fn create(&mut self) -> Result<String> {
        self.ask_for("id", "POST", "/api/sandbox", json!({}), 201).await
    }

    pub(crate) async fn delete(&mut self, id: &str) -> Result<Bytes> {
        self.ask("DELETE", &format!("/api/sandbox/{id}?force=true&wait=60"), None, 200).await
    }
}
