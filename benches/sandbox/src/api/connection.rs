//! One HTTP connection to Pinfold or Docker, for sequential requests.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result};
use hyper::body::Bytes;
use pinfold_test_support::http;
use serde_json::{Value, json};

pub(crate) struct Connection(http::Connection);

impl Connection {
    pub(crate) async fn tcp(address: SocketAddr, token: &str) -> Result<Self> {
        Ok(Self(http::Connection::tcp(address, Some(token)).await?))
    }

    pub(crate) async fn unix(socket: &Path) -> Result<Self> {
        Ok(Self(http::Connection::unix(socket).await?))
    }

    /// The body of a response, which must have this status.
    pub(crate) async fn request(
        &mut self,
        method: &str,
        path: &str,
        body: Option<Value>,
        status: u16,
    ) -> Result<Bytes> {
        self.0.request(method, path, body, status).await
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
        let document = self.0.request_json(method, path, &[], Some(body), status).await?;
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
