//! Sends JSON to an address, and looks at nothing of the answer but its status. Redirects are not followed: what was
//! signed for one receiver is nobody else's business.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::{ClientConfig, RootCertStore};

use super::Desk;

#[derive(Debug, thiserror::Error)]
pub(crate) enum PostError {
    #[error("the configured address is no http or https address")]
    BadAddress,
    #[error("could not set up TLS: {0}")]
    Tls(String),
    #[error("could not reach it: {0}")]
    Unreachable(String),
    #[error("it answered {status}")]
    Refused { status: u16 },
}

pub(crate) struct Post {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl Desk {
    /// Made when it is first needed: it reads the authorities of this host.
    pub(super) fn post(&self) -> Result<&Post, PostError> {
        if let Some(post) = self.post.get() {
            return Ok(post);
        }
        let made = Post::new()?;
        Ok(self.post.get_or_init(|| made))
    }
}

impl Post {
    pub(crate) fn new() -> Result<Self, PostError> {
        let mut roots = RootCertStore::empty();
        // Some are unreadable on many hosts; those that can be read vouch for most.
        let _ = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let tls = tls.map_err(|error| PostError::Tls(error.to_string()))?;
        let tls = tls.with_root_certificates(roots).with_no_client_auth();
        let mut plain = HttpConnector::new();
        plain.enforce_http(false);
        let connector = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
        let connector = connector.enable_http1().wrap_connector(plain);
        // Messages are rare: a connection that was kept would be closed by its other end before the next one.
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector);
        Ok(Self { client })
    }

    pub(crate) async fn post(&self, request: Request<Full<Bytes>>) -> Result<String, PostError> {
        let answer = self.client.request(request).await.map_err(|error| unreachable(&error))?;
        let status = answer.status();
        if !status.is_success() {
            return Err(PostError::Refused { status: status.as_u16() });
        }
        Ok(format!("it answered {}", status.as_u16()))
    }
}

/// With its causes: the outermost says only that it failed.
fn unreachable(error: &dyn std::error::Error) -> PostError {
    let (mut told, mut source) = (error.to_string(), error.source());
    while let Some(cause) = source {
        told = format!("{told}: {cause}");
        source = cause.source();
    }
    PostError::Unreachable(told)
}
