//! One HTTP connection to the server, for sequential requests.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// The server's address and token.
#[derive(Debug, Clone)]
pub(crate) struct ServerAddress {
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
}

pub(crate) struct Connection {
    server: ServerAddress,
    connection: SendRequest<Full<Bytes>>,
    driver: JoinHandle<()>,
}

impl Connection {
    pub(crate) async fn open(server: &ServerAddress) -> Result<Self> {
        let stream = TcpStream::connect(server.address).await.context("could not connect to the server")?;
        stream.set_nodelay(true)?;
        let (connection, driver) = http1::handshake(TokioIo::new(stream)).await?;
        // A broken connection shows at the next request.
        let driver = tokio::spawn(async move { drop(driver.await) });
        Ok(Self { server: server.clone(), connection, driver })
    }

    /// The JSON body of a response, which must have this status. `key` is the idempotency key.
    pub(crate) async fn request(
        &mut self,
        (method, path): (&str, &str),
        key: Option<&str>,
        body: Option<Value>,
        status: u16,
    ) -> Result<Value> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", self.server.address.to_string())
            .header("authorization", format!("Bearer {}", self.server.token));
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
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
        serde_json::from_slice(&read).with_context(|| format!("{method} {path}: the answer is no JSON"))
    }

    /// Waits until the connection is closed, so that it does not count as an open file.
    pub(crate) async fn close(self) {
        drop(self.connection);
        let _ = self.driver.await;
    }
}
