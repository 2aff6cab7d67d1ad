//! The server's address and token, and one HTTP connection to it.

use std::net::SocketAddr;

use anyhow::Result;
use pinfold_test_support::http;
use serde_json::Value;

/// The server's address and token.
#[derive(Debug, Clone)]
pub(crate) struct ServerAddress {
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
}

pub(crate) struct Connection(http::Connection);

impl Connection {
    pub(crate) async fn open(server: &ServerAddress) -> Result<Self> {
        Ok(Self(http::Connection::tcp(server.address, Some(&server.token)).await?))
    }

    /// The JSON body of a response, which must have this status. `key` is the idempotency key.
    pub(crate) async fn request(
        &mut self,
        (method, path): (&str, &str),
        key: Option<&str>,
        body: Option<Value>,
        status: u16,
    ) -> Result<Value> {
        let key = key.map(|key| ("idempotency-key", key));
        self.0.request_json(method, path, key.as_slice(), body, status).await
    }

    /// Waits until the connection is closed, so that it does not count as an open file.
    pub(crate) async fn close(self) {
        self.0.close().await;
    }
}
