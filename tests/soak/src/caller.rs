//! One connection to the server, and requests on it one after the other.

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

/// Where the server is, and what it lets in.
#[derive(Debug, Clone)]
pub(crate) struct Door {
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
}

pub(crate) struct Caller {
    door: Door,
    connection: SendRequest<Full<Bytes>>,
    driver: JoinHandle<()>,
}

impl Caller {
    pub(crate) async fn at(door: &Door) -> Result<Self> {
        let stream = TcpStream::connect(door.address).await.context("could not connect to the server")?;
        stream.set_nodelay(true)?;
        let (connection, driver) = http1::handshake(TokioIo::new(stream)).await?;
        // What broke is seen by whoever asks next.
        let driver = tokio::spawn(async move { drop(driver.await) });
        Ok(Self { door: door.clone(), connection, driver })
    }

    /// The document of an answer with this status. A key makes the same wish the same sandbox.
    pub(crate) async fn ask(
        &mut self,
        (method, path): (&str, &str),
        key: Option<&str>,
        body: Option<Value>,
        status: u16,
    ) -> Result<Value> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", self.door.address.to_string())
            .header("authorization", format!("Bearer {}", self.door.token));
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

    /// Until the connection is closed, so that nobody counts it among what is open.
    pub(crate) async fn hang_up(self) {
        drop(self.connection);
        let _ = self.driver.await;
    }
}
